"""The products of a convolution on matrix units: what a warp reads, in which order, and adds."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

from fourfold.codegen.expression import Expression, Pointer, const, minimum
from fourfold.codegen.intrinsics import load_words, load_words_streamed
from fourfold.codegen.kernel import Kernel, Variable
from fourfold.codegen.statement import MatrixMultiply
from fourfold.ops.kernels.matrix.feed import Feed
from fourfold.ops.kernels.matrix.tile import WARP, MatrixTile, steps_in_registers

Sums = list[list[Variable]]


@dataclass(frozen=True)
class Warp:
    """The position of a work-item in its warp, and of the warp in the output."""

    lane: Expression
    line: Expression  # selects the two pixels of a block that this work-item holds
    quarter: Expression  # selects the slice of a step
    first: Expression  # first block of pixels
    block: Expression  # first block of channels


@dataclass(frozen=True)
class Products:
    """All products of a warp.

    `weights` are packed for warps, in `blocks` blocks. A second array, if any, holds their rounding
    errors. `streams` is set if they are too large for a cache.
    """

    kernel: Kernel
    tile: MatrixTile
    feed: Feed
    weights: list[Pointer]
    blocks: int
    warp: Warp
    streams: bool

    @property
    def _stride(self) -> int:
        return self.tile.split * self.tile.ahead

    @property
    def _single_pass(self) -> bool:
        """True if a warp reads all of its steps at once."""
        return self._stride >= self.feed.work.steps

    def add_to(self, sums: Sums) -> None:
        kernel, tile, feed = self.kernel, self.tile, self.feed
        if self.streams:
            kernel.streamed.update(pointer.name for pointer in self.weights)
        blocks = [self.warp.first + row for row in range(tile.rows)]
        pixels = [
            pixel for at in blocks for pixel in feed.rows.readable(kernel, at, self.warp.line)
        ]
        steps = kernel.size("steps", feed.work.steps)
        last = kernel.size("last_block", self.blocks - 1)
        columns = [
            kernel.let(minimum(self.warp.block + c, last) * steps, "w") for c in range(tile.columns)
        ]
        feed.aim(pixels, self.warp.lane)
        first = kernel.local_id(2) * tile.ahead if tile.split > 1 else const(0)
        if feed.work.filters:
            self._multiply_filtered(sums, columns, steps, first)
        elif tile.early or self._single_pass:
            self._multiply_early(sums, columns, steps, first)
        else:
            kernel.await_inputs()
            with kernel.loop(steps, first, self._stride, title="step") as step:
                self._multiply(sums, self._constants(columns, step), self._inputs(step))

    def _multiply_early(
        self, sums: Sums, columns: list[Expression], steps: Expression, first: Expression
    ) -> None:
        """Read weights before inputs, and the next step while the current one is multiplied."""
        kernel, tile = self.kernel, self.tile
        weights = self._constants(columns, first)
        kernel.await_inputs()
        inputs = self._inputs(first)
        if self._single_pass:
            self._multiply(sums, weights, inputs)
            return
        held = [[kernel.variable(one, "held") for one in kind] for kind in (weights, inputs)]
        end = kernel.let(steps - tile.ahead, "end")
        with kernel.loop(steps, first, self._stride, title="step") as step:
            after = kernel.let(minimum(step + self._stride, end), "after")
            coming = [*self._constants(columns, after), *self._inputs(after)]
            self._multiply(sums, list(held[0]), list(held[1]))
            for value, new in zip([*held[0], *held[1]], coming, strict=True):
                kernel.set(value, new)

    def _multiply_filtered(
        self, sums: Sums, columns: list[Expression], steps: Expression, first: Expression
    ) -> None:
        """Multiply behind a depthwise filter.

        A step reads so much that only few fit in registers. All factors are read first, and the
        inputs of later steps while earlier ones are multiplied.
        """
        kernel, tile, feed = self.kernel, self.tile, self.feed
        ready, near = steps_in_registers(feed.work, tile), min(2, tile.ahead)
        if not self._single_pass:
            kernel.await_inputs()
        with (
            nullcontext(first)
            if self._single_pass
            else kernel.loop(steps, first, self._stride) as step
        ):
            step_numbers = [kernel.let(step + ahead, "k") for ahead in range(tile.ahead)]
            factors = [self._factors(columns, at) for at in step_numbers]
            constants = [feed.constants(at, self.warp.quarter) for at in step_numbers[:near]]
            if self._single_pass:
                kernel.await_inputs()
            inputs = [feed.inputs(at, self.warp.quarter) for at in step_numbers[:ready]]
            for number, factor in enumerate(factors):
                self._add(sums, feed.combine(constants[number], inputs[number]), factor)
                if number + near < tile.ahead:
                    constants.append(feed.constants(step_numbers[number + near], self.warp.quarter))
                if number + ready < tile.ahead:
                    inputs.append(feed.inputs(step_numbers[number + ready], self.warp.quarter))

    def _factors(self, columns: list[Expression], step: Expression) -> list[Expression]:
        indices = [(start + step) * WARP + self.warp.lane for start in columns]
        pairs = [(weights, index) for weights in self.weights for index in indices]
        return [self.kernel.let(self._factor(*pair), "f") for pair in pairs]

    def _factor(self, weights: Pointer, index: Expression) -> Expression:
        if not self.streams:
            return load_words(weights, index)
        return load_words_streamed(weights, index * 4)

    def _constants(self, columns: list[Expression], step: Expression) -> list[Expression]:
        """Read the constants of `ahead` steps: for each, those of the feed, then its factors."""
        read = []
        for ahead in range(self.tile.ahead):
            at = self.kernel.let(step + ahead, "k")
            read += self.feed.constants(at, self.warp.quarter)
            read += self._factors(columns, at)
        return read

    def _inputs(self, step: Expression) -> list[Expression]:
        steps = [self.kernel.let(step + ahead, "k") for ahead in range(self.tile.ahead)]
        return [value for at in steps for value in self.feed.inputs(at, self.warp.quarter)]

    def _multiply(self, sums: Sums, constants: list[Expression], inputs: list[Expression]) -> None:
        count = self.tile.ahead
        for step_constants, step_inputs in zip(
            _parts(constants, count), _parts(inputs, count), strict=True
        ):
            own = len(step_constants) - self.tile.columns * len(self.weights)
            self._add(
                sums, self.feed.combine(step_constants[:own], step_inputs), step_constants[own:]
            )

    def _add(self, sums: Sums, values: list[list[Expression]], factors: list[Expression]) -> None:
        """Add the products of all parts, except rounding error times rounding error."""
        first, *errors = _parts(factors, len(self.weights))
        for halves, part_factors in [
            *((part, first) for part in values),
            *((values[0], r) for r in errors),
        ]:
            for column, factor in enumerate(part_factors):
                for number, line in enumerate(sums):
                    upper, lower = halves[2 * number], halves[2 * number + 1]
                    self.kernel.emit(MatrixMultiply(line[column], upper, lower, factor))


def _parts(values: list[Expression], count: int) -> list[list[Expression]]:
    size = len(values) // count
    return [values[part * size : (part + 1) * size] for part in range(count)]

"""Inputs of matrix units: for a pixel and a slice, four fp16 values in two 32-bit words.

A work-item of a warp owns every fourth slice of a step. A feed decides where the values come from:
directly from memory, from memory tap by tap, or from a depthwise filter that is applied on the way
(`depthwise_feed`). `Rows` is the order of the 16 pixels of a block: two in each of the eight lines
of a warp.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fourfold.codegen.context import MAX_FP32_WEIGHTS, NodeContext
from fourfold.codegen.expression import (
    Expression,
    const,
    maximum,
    minimum,
    where,
)
from fourfold.codegen.intrinsics import load_words, pack_halves, unpack_halves
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.location import Layout
from fourfold.codegen.view import View
from fourfold.ops.kernels.conv.taps import Base, MakeTaps, TapLocation, Taps
from fourfold.ops.kernels.matrix.tile import MatrixWork
from fourfold.types import MAX_FLOAT16, DType, Shape

_LINES = 8
Two = tuple[Expression, Expression]


class Rows(Protocol):
    """The two pixels of a line of a block."""

    def pixels(self, kernel: Kernel, block: Expression, line: Expression) -> Two:
        """Return the numbers of both; a missing one is beyond the last pixel."""

    def readable(self, kernel: Kernel, block: Expression, line: Expression) -> Two:
        """Return the numbers of both, clamped to pixels whose inputs can be read."""


@dataclass(frozen=True)
class InOrder:
    """Eight pixels, then the next eight."""

    count: int

    def pixels(self, kernel: Kernel, block: Expression, line: Expression) -> Two:
        upper = kernel.let(block * (2 * _LINES) + line, "pixel")
        return upper, upper + _LINES

    def readable(self, kernel: Kernel, block: Expression, line: Expression) -> Two:
        last = kernel.size("last_pixel", self.count - 1)
        upper, lower = self.pixels(kernel, block, line)
        return kernel.let(minimum(upper, last), "pixel"), kernel.let(minimum(lower, last), "pixel")


@dataclass(frozen=True)
class InPairs:
    """Eight pixels and the right neighbor of each, which shares most of its inputs.

    If the image width is odd, the last pixel of a line has a neighbor that does not exist.
    """

    shape: Shape

    @property
    def count(self) -> int:
        """Number of pixels, including neighbors that do not exist."""
        return 2 * self._pairs

    @property
    def _across(self) -> int:
        return -(-self.shape[2] // 2)

    @property
    def _pixels(self) -> int:
        return self.shape[0] * self.shape[1] * self.shape[2]

    @property
    def _pairs(self) -> int:
        return self.shape[0] * self.shape[1] * self._across

    def _found(self, kernel: Kernel, pair: Expression) -> Two:
        row = kernel.let(pair // self._across, "row")
        column = kernel.let((pair - row * self._across) * 2, "column")
        return kernel.let(row * self.shape[2] + column, "pixel"), column

    def pixels(self, kernel: Kernel, block: Expression, line: Expression) -> Two:
        upper, column = self._found(kernel, kernel.let(block * _LINES + line, "pair"))
        if self.shape[2] % 2 == 0:
            return upper, upper + 1
        return upper, where(column + 1 < self.shape[2], upper + 1, self._pixels)

    def readable(self, kernel: Kernel, block: Expression, line: Expression) -> Two:
        pair = kernel.let(minimum(block * _LINES + line, self._pairs - 1), "pair")
        upper, _ = self._found(kernel, pair)
        if self.shape[2] % 2 == 0:
            return upper, upper + 1
        return upper, minimum(upper + 1, self._pixels - 1)


class Feed(Protocol):
    """Reads the inputs of the products."""

    work: MatrixWork
    rows: Rows

    def start(self, kernel: Kernel, target: View) -> None:
        """Prepare for a kernel that can still get parameters."""

    def aim(self, pixels: list[Expression], lane: Expression) -> None:
        """Find the inputs of these output pixels, before the steps begin."""

    def constants(self, step: Expression, quarter: Expression) -> list[Expression]:
        """Read the constants of a step, other than the weights of the products."""

    def inputs(self, step: Expression, quarter: Expression) -> list[Expression]:
        """Read everything else that a step needs."""

    def combine(
        self, constants: list[Expression], inputs: list[Expression]
    ) -> list[list[Expression]]:
        """Return the fp16 values of every pixel from what a step has read.

        If values are fp32, a second list has their rounding errors.
        """


def weight_parts(context: NodeContext, number: int) -> int:
    """Return in how many fp16 parts weights are multiplied.

    Two if values are kept as fp32, the weights are few, and they are not exact in fp16 already.
    """
    array = context.array(number)
    if array is None or not context.options.keeps_values or array.size > MAX_FP32_WEIGHTS:
        return 1
    return 1 if np.array_equal(array, array.astype(np.float16)) else 2


def split_halves(kernel: Kernel, value: Expression) -> list[Expression]:
    """Return four floats as fp16 and their rounding errors, together almost as precise as fp32."""
    near = maximum(minimum(value, MAX_FLOAT16), -MAX_FLOAT16)
    first = kernel.let(pack_halves(near), "a")
    return [first, kernel.let(pack_halves(value - unpack_halves(first)), "rest")]


def load_floats(source: View, location: TapLocation, slice_: Expression) -> Expression:
    """Load four channels of a pixel; zeros if it does not exist."""
    pixel, inside = location
    kernel = source.kernel
    if inside is None:
        return kernel.let(source.load(pixel, slice_), "x")
    value = kernel.let(source.load(where(inside, pixel, 0), slice_), "x")
    return kernel.let(where(inside, value, 0.0), "x")


def load_halves(source: View, location: TapLocation, slice_: Expression) -> Expression:
    """Load four channels of a pixel as fp16; zeros if it does not exist.

    There is no branch, because it would make each read wait for the previous one.
    """
    pixel, inside = location
    kernel = source.kernel
    if source.location.dtype is DType.F16 and source.location.layout is Layout.SLICED:
        index = source.index(pixel, slice_)
        return kernel.let(load_words(source.pointer, index, inside), "a")
    if inside is not None:
        pixel = where(inside, pixel, 0)
    value = kernel.let(pack_halves(source.load(pixel, slice_)), "a")
    return value if inside is None else kernel.let(where(inside, value, 0), "a")


class WindowFeed:
    """Pixels under a window: all slices of a tap, then those of the next tap.

    If the channels of a tap do not fill whole steps, a step has slices of several taps. fp32 values
    are multiplied in two parts, because matrix units take fp16.
    """

    def __init__(self, context: NodeContext, taps: MakeTaps, count: int) -> None:
        self.context, self.make_taps, self.count = context, taps, count
        self.pairs = count * context.input.slices
        self.whole = context.input.slices % 4 == 0
        self.wide = context.options.keeps_values
        pixels, channels = context.output.pixels, context.output.channels
        steps, sums = _steps(self.pairs, self.whole), min(count, 4)
        fine = weight_parts(context, 1) > 1
        self.work = MatrixWork(pixels, channels, steps, sums=sums, wide=self.wide, fine=fine)
        self.rows: Rows = InOrder(pixels)

    def start(self, kernel: Kernel, target: View) -> None:
        self.kernel, self.source = kernel, self.context.read(kernel, 0)
        self.source.fixed = True
        self.taps: Taps = self.make_taps(kernel, self.source, target)

    def aim(self, pixels: list[Expression], lane: Expression) -> None:
        self.bases = [bind_base(self.kernel, self.taps, pixel) for pixel in pixels]

    def constants(self, step: Expression, quarter: Expression) -> list[Expression]:
        return []

    def inputs(self, step: Expression, quarter: Expression) -> list[Expression]:
        kernel, taps = self.kernel, self.taps
        tap, slice_, exists = self._tap(step, quarter)
        row = kernel.let(tap // taps.count[1], "row")
        column = kernel.let(tap - row * taps.count[1], "column")
        values = []
        for base in self.bases:
            pixel, inside = taps.find(base, row, column)
            if exists is not None:
                inside = exists if inside is None else exists & inside
            location = bind_location(kernel, (pixel, inside))
            read = load_floats if self.wide else load_halves
            values.append(read(self.source, location, slice_))
        return values

    def combine(
        self, constants: list[Expression], inputs: list[Expression]
    ) -> list[list[Expression]]:
        if not self.wide:
            return [inputs]
        both = [split_halves(self.kernel, value) for value in inputs]
        return [[halves[part] for halves in both] for part in (0, 1)]

    def _tap(
        self, step: Expression, quarter: Expression
    ) -> tuple[Expression, Expression, Expression | None]:
        """Return the tap and slice that a work-item reads in a step, and whether they exist.

        Divisors are literals: division by a variable takes as long as a read. None: always exists.
        """
        kernel, slices = self.kernel, self.context.input.slices
        if self.whole and self.count == 1:
            return const(0), kernel.let(step * 4 + quarter, "slice"), None
        if self.whole:
            steps = slices // 4
            tap = kernel.let(step // steps, "tap")
            return tap, kernel.let((step - tap * steps) * 4 + quarter, "slice"), None
        pair = kernel.let(step * 4 + quarter, "pair")
        exists = kernel.let(pair < self.pairs, "exists")
        tap = kernel.let(minimum(pair // slices, self.count - 1), "tap")
        return tap, kernel.let(pair - pair // slices * slices, "slice"), exists


def _steps(pairs: int, whole: bool) -> int:
    """Return the steps of four slices, rounded up to a multiple of four if they are not whole."""
    return pairs // 4 if whole else -(-pairs // 16) * 4


def flatten_taps(weights: np.ndarray) -> np.ndarray:
    """Flatten [O, taps, I] to [O, inputs]: slices of four, tap after tap, as the feed reads."""
    outputs, taps, inputs = weights.shape
    slices = -(-inputs // 4)
    padded = np.zeros((outputs, taps, slices * 4), weights.dtype)
    padded[:, :, :inputs] = weights
    flat = np.zeros((outputs, _steps(taps * slices, slices % 4 == 0) * 16), weights.dtype)
    flat[:, : taps * slices * 4] = padded.reshape(outputs, -1)
    return flat


def make_clamp(low: float, high: float) -> Callable[[Expression], Expression]:
    """Return a function that clamps values to low..high; either may be infinite."""

    def clamp(value: Expression) -> Expression:
        value = value if low == -np.inf else maximum(value, low)
        return value if high == np.inf else minimum(value, high)

    return clamp


def bind_base(kernel: Kernel, taps: Taps, pixel: Expression) -> Base:
    return tuple(kernel.let(part, "base") for part in taps.start(pixel))


def bind_location(kernel: Kernel, location: TapLocation) -> TapLocation:
    pixel, inside = location
    return kernel.let(pixel, "from"), None if inside is None else kernel.let(inside, "inside")

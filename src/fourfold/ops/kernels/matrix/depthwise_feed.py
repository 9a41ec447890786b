"""A depthwise filter fused in front of matrix units: its result never goes through memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import Expression, const, load, vector, where
from fourfold.codegen.intrinsics import load_double_words, pack_halves, subgroup_shift
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.location import Layout
from fourfold.codegen.statement import DiagonalMultiply
from fourfold.codegen.view import View
from fourfold.ops.base.window import Window
from fourfold.ops.kernels.conv.taps import Base, TapLocation, Taps, window_taps
from fourfold.ops.kernels.matrix.feed import (
    InPairs,
    Rows,
    bind_base,
    bind_location,
    load_floats,
    load_halves,
    split_halves,
    weight_parts,
)
from fourfold.ops.kernels.matrix.tile import MatrixWork, split_weights
from fourfold.types import DType, TensorType

_LINE = 4  # work-items per line
_LAST_LINE = 7
# row and column under the filter, relative to the first tap of the first pixel
Spot = tuple[int, int]
ZERO_WORD = const(0, "uint")


class WindowReader(Protocol):
    """Reads the inputs of pairs of pixels."""

    def aim(self, pixels: list[Expression], line: Expression) -> None:
        """Find the inputs of the pixels, which are in pairs; `line` is the work-item's line."""

    def read(self, slice_: Expression) -> list[Expression]:
        """Read all inputs of a slice."""

    def spots(self, read: list[Expression]) -> list[dict[Spot, Expression]]:
        """Return the inputs under the filter for each pair, from the values that were read."""


def pair_columns(window: Window) -> list[int]:
    """Return the columns under the filter for two neighboring pixels."""
    own = [tap * window.dilation[1] for tap in range(window.filter[1])]
    return sorted({*own, *(column + window.stride[1] for column in own)})


def make_window_reader(
    source: View, taps: Taps, window: Window, odd: bool, wide: bool
) -> WindowReader:
    """Return the better reader. `odd` is true if pairs may lack their second pixel."""
    finder = _SpotFinder(source, taps, window, odd)
    halves = source.location.dtype is DType.F16 and source.location.layout is Layout.SLICED
    if halves and not wide and window.stride[1] > 1 and _reaches_neighbours(window):
        return _NeighbourReads(finder)
    return _SeparateReads(finder, wide)


def _reaches_neighbours(window: Window) -> bool:
    """Return True if each input of a pair belongs to it or to a neighboring pair."""
    block, before = 2 * window.stride[1], window.padding.left
    last = pair_columns(window)[-1] - before
    near = before <= block and last < 2 * block
    return near and window.dilation[1] == 1 and window.stride[1] <= window.filter[1]


@dataclass(frozen=True)
class _SpotFinder:
    """Finds the input pixels of a pair."""

    source: View
    taps: Taps
    window: Window
    odd: bool

    @property
    def kernel(self) -> Kernel:
        return self.source.kernel

    def pairs(self, pixels: list[Expression]) -> list[tuple[Base, Base]]:
        bases = [bind_base(self.kernel, self.taps, pixel) for pixel in pixels]
        return list(zip(bases[::2], bases[1::2], strict=True))

    def find(self, pair: tuple[Base, Base], spot: Spot) -> TapLocation:
        (upper, lower), (row, column) = pair, spot
        gap, stride = self.window.dilation[1], self.window.stride[1]
        own = column % gap == 0
        tap = column // gap if own else (column - stride) // gap
        pixel, inside = self.taps.find(upper if own else lower, const(row), const(tap))
        if inside is None and self.odd:
            inside = upper[1] + column < self.source.axis(2)
        return bind_location(self.kernel, (pixel, inside))


class _SeparateReads:
    """Reads every spot separately."""

    def __init__(self, finder: _SpotFinder, wide: bool) -> None:
        self.locations, self.load = finder, load_floats if wide else load_halves

    def aim(self, pixels: list[Expression], line: Expression) -> None:
        rows, across = range(self.locations.window.filter[0]), pair_columns(self.locations.window)
        spots = [(row, column) for row in rows for column in across]
        self.found = [
            {spot: self.locations.find(pair, spot) for spot in spots}
            for pair in self.locations.pairs(pixels)
        ]

    def read(self, slice_: Expression) -> list[Expression]:
        source = self.locations.source
        return [self.load(source, one, slice_) for found in self.found for one in found.values()]

    def spots(self, read: list[Expression]) -> list[dict[Spot, Expression]]:
        values = iter(read)
        return [{spot: next(values) for spot in found} for found in self.found]


class _NeighbourReads:
    """Each line reads its own block of pixels and gets the others from neighboring lines.

    Only the first and the last of eight lines read beyond their block. Memory delivers whole
    sectors, and reads in steps of two pixels would waste half of each.
    """

    def __init__(self, finder: _SpotFinder) -> None:
        self.locations, window = finder, finder.window
        self.block, self.before = 2 * window.stride[1], window.padding.left
        self.whole = finder.source.type.shape[2] % 2 == 0  # two pixels are sixteen aligned bytes
        beside = [c for c in pair_columns(window) if not 0 <= c - self.before < self.block]
        self.beside = [(row, c) for row in range(window.filter[0]) for c in beside]
        starts = range(self.before, self.before + self.block, 1 + self.whole)
        self.own = [(row, c) for row in range(window.filter[0]) for c in starts]

    def aim(self, pixels: list[Expression], line: Expression) -> None:
        kernel = self.locations.kernel
        first = kernel.let(line.equals(0), "first")
        last = kernel.let(line.equals(_LAST_LINE), "last")
        self.found: list[tuple[list[TapLocation], list[TapLocation], list[Expression]]] = []
        for pair in self.locations.pairs(pixels):
            own = [self.locations.find(pair, spot) for spot in self.own]
            edges: list[TapLocation] = []
            inner = []
            for spot in self.beside:
                pixel, inside = self.locations.find(pair, spot)
                edge = first if spot[1] < self.before else last
                exists = const(True) if inside is None else inside
                edges.append((pixel, kernel.let(exists & edge, "edge")))
                inner.append(kernel.let(exists & edge.equals(False), "inner"))
            self.found.append((own, edges, inner))

    def read(self, slice_: Expression) -> list[Expression]:
        values = []
        for own, edges, _ in self.found:
            values += [self._read_block(found, slice_) for found in own]
            values += [load_halves(self.locations.source, found, slice_) for found in edges]
        return values

    def _read_block(self, found: TapLocation, slice_: Expression) -> Expression:
        source, (pixel, inside) = self.locations.source, found
        if not self.whole:
            return load_halves(source, found, slice_)
        index = source.index(pixel, slice_) * 4
        exists = const(True) if inside is None else inside
        return source.kernel.let(load_double_words(source.pointer, index, exists), "two")

    def spots(self, read: list[Expression]) -> list[dict[Spot, Expression]]:
        values, every = iter(read), []
        for _, edges, inner in self.found:
            inputs: dict[Spot, Expression] = {}
            for row, column in self.own:
                value = next(values)
                for number in range(1 + self.whole):
                    inputs[row, column + number] = value.part(number, 2)
            edge_values = [next(values) for _ in edges]
            for spot, edge, within in zip(self.beside, edge_values, inner, strict=True):
                inputs[spot] = self._neighbour_value(inputs, spot, edge, within)
            every.append(inputs)
        return every

    def _neighbour_value(
        self, inputs: dict[Spot, Expression], spot: Spot, edge: Expression, within: Expression
    ) -> Expression:
        """Return the value of the neighboring line, or the one read at the edge."""
        kernel, (row, column) = self.locations.kernel, spot
        behind = column >= self.before
        neighbour = inputs[row, column + (-self.block if behind else self.block)]
        moved = kernel.let(subgroup_shift(neighbour, _LINE if behind else -_LINE), "moved")
        return kernel.let(where(within, moved, edge), "beside")


class DepthwiseFeed:
    """Computes a depthwise filter with matrix units, as the input of a matrix product.

    Two filter taps form a matrix with their weights on two diagonals, eight channels at a time. The
    result is in the registers where the next product needs it. A work-item has neighboring pixels,
    so inputs that both need are read once.
    """

    def __init__(
        self,
        context: NodeContext,
        window: Window,
        filters: tuple[np.ndarray, np.ndarray],
        finish: Callable[[Expression], Expression],
    ) -> None:
        """`filters` is [taps, channels] and an offset per channel; `finish` is applied last."""
        self.context, self.window, self.finish = context, window, finish
        self.wide = context.options.keeps_values
        parts = split_weights(filters[0], weight_parts(context, 1))
        self.filters, self.bias = [pack_diagonals(part) for part in parts], filters[1]
        self.rows: Rows = InPairs(context.output.shape)
        work = filter_work(context.input.slices // 4, context.output, window, self.wide)
        reads = 1 + _words(work.sums) * len(parts)
        self.work = replace(work, filters=reads, fine=weight_parts(context, 2) > 1)

    def start(self, kernel: Kernel, target: View) -> None:
        self.kernel, self.source = kernel, self.context.read(kernel, 0)
        self.source.fixed = True
        self.factors = [self.context.packed(kernel, "filters", part) for part in self.filters]
        self.offsets = self.context.packed(kernel, "offsets", self.bias)
        taps = window_taps(self.window)(kernel, self.source, target)
        odd = self.context.output.shape[2] % 2 == 1
        self.under = make_window_reader(self.source, taps, self.window, odd, self.wide)

    def aim(self, pixels: list[Expression], lane: Expression) -> None:
        kernel = self.kernel
        line = kernel.let(lane // 4, "line")
        self.under.aim(pixels, line)
        # A work-item holds a weight of the diagonal in one half of a word, or none at all.
        self.odd = kernel.let(line % 2, "odd")
        mine = kernel.let((lane % 4).equals(line // 2), "mine")
        self.pick = [
            kernel.let(where(mine, where(self.odd.equals(1), odd, even), 0x4444), "pick")
            for even, odd in ((0x4410, 0x1044), (0x4432, 0x3244))
        ]

    def constants(self, step: Expression, quarter: Expression) -> list[Expression]:
        kernel = self.kernel
        slice_ = kernel.let(step * 4 + quarter, "slice")
        offset = kernel.let(load(self.offsets, slice_, "float", 4), "offset")
        reads = _words(self.work.sums)
        start = kernel.let((slice_ * 2 + self.odd) * reads, "w")
        words = [load(part, start + n, "int", 4) for part in self.factors for n in range(reads)]
        return [offset, *(kernel.let(word, "d") for word in words)]

    def inputs(self, step: Expression, quarter: Expression) -> list[Expression]:
        return self.under.read(self.kernel.let(step * 4 + quarter, "slice"))

    def combine(
        self, constants: list[Expression], inputs: list[Expression]
    ) -> list[list[Expression]]:
        (offset, *words), reads = constants, _words(self.work.sums)
        factors = [
            [words[part * reads + tap // 4].lane(tap % 4) for tap in range(self.work.sums)]
            for part in range(len(self.factors))
        ]
        pixel_parts = [
            self._parts(value)
            for spots in self.under.spots(inputs)
            for value in self._filtered(spots, factors, offset)
        ]
        return [list(part) for part in zip(*pixel_parts, strict=True)]

    def _parts(self, value: Expression) -> list[Expression]:
        """Pack four floats as fp16, with the rounding error as a second part if values are fp32."""
        if self.wide:
            return split_halves(self.kernel, self.kernel.let(value, "x"))
        return [self.kernel.let(pack_halves(value), "a")]

    def _filtered(
        self,
        read: dict[Spot, Expression],
        factors: list[list[Expression]],
        offset: Expression,
    ) -> list[Expression]:
        """Return the filter's result for the upper and the lower pixels of one block.

        Pairs of taps alternate between two sets of sums, because a sum waits for the previous one.
        """
        kernel = self.kernel
        both = [offset.part(half, 2) for half in (0, 1)]
        sums = [
            [kernel.variable(vector(part, part), "sum") for part in both],
            [kernel.variable(const(0.0, "float", 4), "sum") for _ in both],
        ]
        halves = {spot: self._halves(value) for spot, value in read.items()}
        (down, across), gap, stride = (
            self.window.filter,
            self.window.dilation[1],
            self.window.stride[1],
        )
        taps = [(row, tap * gap) for row in range(down) for tap in range(across)]
        for number in range(0, len(taps), 2):
            # The product of both rounding errors is too small to matter.
            for part, weight in self._products():
                words = [
                    halves[row, column + move][part]
                    for row, column in taps[number : number + 2]
                    for move in (0, stride)
                ]
                weights = factors[weight][number : number + 2]
                for half, total in enumerate(sums[number // 2 % 2]):
                    taken = [word.lane(half) for word in words] + [ZERO_WORD] * (4 - len(words))
                    taken += [*weights, *[const(0)] * (2 - len(weights)), self.pick[half]]
                    kernel.emit(DiagonalMultiply(total, *taken))
        totals = [kernel.let(a + b, "total") for a, b in zip(*sums, strict=True)]
        results = [vector(*(total.part(row, 2) for total in totals)) for row in (0, 1)]
        return [self.finish(result) for result in results]

    def _products(self) -> list[tuple[int, int]]:
        """Return which parts of values and weights are multiplied."""
        values = [(0, 0), (1, 0)] if self.wide else [(0, 0)]
        return [*values, *((0, part) for part in range(1, len(self.factors)))]

    def _halves(self, value: Expression) -> list[Expression]:
        """Return a pixel as fp16, with its rounding error as a second part if values are fp32."""
        return split_halves(self.kernel, value) if self.wide else [value]


def filter_work(steps: int, output: TensorType, window: Window, wide: bool) -> MatrixWork:
    """Return the work of a matrix product with a depthwise filter in front of it."""
    taps = window.filter[0] * window.filter[1]
    return MatrixWork(
        pixels=InPairs(output.shape).count,
        channels=output.channels,
        steps=steps,
        reads=window.filter[0] * len(pair_columns(window)),
        sums=taps,
        filters=1 + _words(taps),
        wide=wide,
    )


def _words(taps: int) -> int:
    """Return the reads of four words that the weights of `taps` taps need."""
    return -(-taps // 4)


def pack_diagonals(filters: np.ndarray) -> np.ndarray:
    """Pack [taps, channels] as [slice][2][taps, in fours] words with weights of channels two
    apart.
    """
    taps, channels = filters.shape
    padded = np.zeros((-(-taps // 4) * 4, -(-channels // 16) * 16), np.float16)
    padded[:taps, :channels] = filters
    parts = padded.reshape(padded.shape[0], -1, 2, 2)  # tap, slice, half, odd
    return np.ascontiguousarray(parts.transpose(1, 3, 0, 2)).reshape(-1).view(np.int32)

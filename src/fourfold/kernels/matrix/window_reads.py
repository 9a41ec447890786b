"""Reads of the inputs under a filter for pairs of neighboring pixels, which share most of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from fourfold.kernel.expression import Expression, const, where
from fourfold.kernel.intrinsics import load_double_words, subgroup_shift
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.location import Layout
from fourfold.kernel.view import View
from fourfold.kernels.conv.taps import Base, Found, Taps
from fourfold.kernels.matrix.feed import bind_base, bind_location, load_floats, load_halves
from fourfold.op.window import Window
from fourfold.types import DType

_LINE = 4  # work-items per line
_LAST_LINE = 7
# row and column under the filter, relative to the first tap of the first pixel
Spot = tuple[int, int]


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

    def find(self, pair: tuple[Base, Base], spot: Spot) -> Found:
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
        self.found: list[tuple[list[Found], list[Found], list[Expression]]] = []
        for pair in self.locations.pairs(pixels):
            own = [self.locations.find(pair, spot) for spot in self.own]
            edges: list[Found] = []
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
            values += [self._block(found, slice_) for found in own]
            values += [load_halves(self.locations.source, found, slice_) for found in edges]
        return values

    def _block(self, found: Found, slice_: Expression) -> Expression:
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
                inputs[spot] = self._beside(inputs, spot, edge, within)
            every.append(inputs)
        return every

    def _beside(
        self, inputs: dict[Spot, Expression], spot: Spot, edge: Expression, within: Expression
    ) -> Expression:
        """Return the value of the neighboring line, or the one read at the edge."""
        kernel, (row, column) = self.locations.kernel, spot
        behind = column >= self.before
        neighbour = inputs[row, column + (-self.block if behind else self.block)]
        moved = kernel.let(subgroup_shift(neighbour, _LINE if behind else -_LINE), "moved")
        return kernel.let(where(within, moved, edge), "beside")

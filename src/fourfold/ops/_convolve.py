"""The register-tiled convolution that conv2d, fully_connected and transpose_conv2d share.

Each work-item makes a tile of `pixels` x `groups * width` outputs in named accumulators. The
weights are packed so
that a group's numbers for one input channel lie side by side, in the order in which the loops
reach them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from fourfold.kernel.expression import (
    Expression,
    Pointer,
    const,
    convert,
    guarded,
    load,
    minimum,
    vector,
    where,
    widen,
)
from fourfold.kernel.kernel import Kernel, Variable
from fourfold.kernel.place import Layout
from fourfold.kernel.site import Site
from fourfold.kernel.view import View
from fourfold.ops._tile import Tile, Work, candidates, choose_tile
from fourfold.ops._window import NO_PADDING, Window


@dataclass(frozen=True)
class Taps:
    """Where the pixels under the filter are, for one output pixel.

    `count` is the number of taps down and across; `find(base, row, column)` gives the input pixel
    of a tap and whether it exists (None: always). `base` is what `start(pixel)` prepared once for
    that output pixel. `offset(row, column)` leads from the last of `base` to a tap that exists, and
    `interior(base)` tells whether all do (None: always).
    """

    count: tuple[int, int]
    start: Callable[[Expression], tuple[Expression, ...]]
    find: Callable[
        [tuple[Expression, ...], Expression, Expression], tuple[Expression, Expression | None]
    ]
    interior: Callable[[tuple[Expression, ...]], Expression] | None = None
    offset: Callable[[Expression, Expression], Expression] | None = None
    neighbours: bool = False  # outputs side by side read inputs side by side

    @property
    def always(self) -> bool:
        """Whether every tap exists for every output pixel."""
        return self.offset is not None and self.interior is None


MakeTaps = Callable[[Kernel, View, View], Taps]


def plain_taps(kernel: Kernel, source: View, target: View) -> Taps:
    """One tap: the input pixel of the same number."""
    return Taps(
        (1, 1),
        start=lambda pixel: (pixel,),
        find=lambda base, row, column: (base[0], None),
        offset=lambda row, column: const(0),
        neighbours=True,
    )


def work_of(site: Site, taps: int) -> Work:
    """The size of the convolution at a site, for a filter of so many taps."""
    return Work(site.output.pixels, site.output.slices, site.input.slices * taps)


def tile_choices(site: Site, taps: int) -> list[str]:
    """Every tile worth timing at a site."""
    return [str(tile) for tile in candidates(site.device, work_of(site, taps))]


def pack_weights(weights: np.ndarray, tile: Tile) -> np.ndarray:
    """[O, taps, I] -> [group][tap][slice of four inputs][input][width of outputs], padded with
    zeros.
    """
    outputs, taps, inputs = weights.shape
    block = tile.width * tile.groups
    padded = np.zeros((-(-outputs // block) * block, taps, -(-inputs // 4) * 4), weights.dtype)
    padded[:outputs, :, :inputs] = weights
    return padded.reshape(-1, tile.width, taps, padded.shape[2]).transpose(0, 2, 3, 1)


def pack_bias(bias: np.ndarray | None, outputs: int, tile: Tile) -> np.ndarray:
    block = tile.width * tile.groups
    padded = np.zeros(-(-outputs // block) * block, np.float32)
    padded[:outputs] = 0 if bias is None else bias
    return padded


class Convolution:
    """One convolution being written: the kernel, its views, its tile, its accumulators."""

    def __init__(self, site: Site, title: str, weights: np.ndarray, taps: MakeTaps) -> None:
        """`weights` is [outputs, taps, inputs], the taps in the order in which the loops reach
        them.
        """
        self.site = site
        target, source = site.output, site.input
        self.tile = choose_tile(site.device, work_of(site, weights.shape[1]), site.choice)
        suffix = "" if self.tile.split == 1 else "_split"
        self.kernel = kernel = site.kernel(title + suffix)
        self.source, self.target = site.read(kernel, 0), site.write(kernel)
        self.weights = site.weights(kernel, "weights", pack_weights(weights, self.tile))
        bias = pack_bias(site.array(2), target.channels, self.tile)
        self.bias = site.packed(kernel, "bias", bias)
        self.lanes = min(4, source.channels)
        self.taps = taps(kernel, self.source, self.target)

    def write(self) -> None:
        """The whole kernel: places, sums, stores."""
        tile, kernel = self.tile, self.kernel
        pixels, group = self._places()
        sums = self._sums(group)
        bases = [
            tuple(kernel.let(part, "base") for part in self.taps.start(pixel)) for pixel in pixels
        ]
        interior = self.taps.interior
        if interior is not None and self.site.device.is_cpu:
            inside = interior(bases[0])
            for base in bases[1:]:
                inside = inside & interior(base)
            with kernel.when(kernel.let(inside, "inside")) as branch:
                self._accumulate(sums, bases, group, checked=False)
            if branch is not None:
                with kernel.otherwise(branch):
                    self._accumulate(sums, bases, group, checked=True)
        else:
            self._accumulate(sums, bases, group, checked=not self.taps.always)
        row = kernel.local_id(0) + kernel.local_id(1) * tile.local[0]
        every = [value for line in sums for value in line]
        kernel.group_combine(every, tile.split, 2, row, operator.add)
        self._store(sums, pixels, group)

    def _places(self) -> tuple[list[Expression], Expression]:
        """The pixels of this work-item's tile, and the first of its groups of output channels."""
        tile, kernel, total = self.tile, self.kernel, self.site.output
        wide, tall = tile.local
        count = -(-total.pixels // tile.pixels)
        groups = -(-total.channels // (tile.width * tile.groups))
        local = (wide, tall, tile.split)
        x, y, _ = kernel.ids(count, groups, tile.split, local=local, stay=tile.split > 1)
        if kernel.grid[1] != groups and tile.split > 1:
            y = kernel.let(minimum(y, const(groups - 1)), "y_in")
        last = kernel.size("last_tile", total.pixels - tile.pixels)
        if wide == 1:
            # The last tile starts early and makes some pixels again: cheaper than a guard.
            start = x * tile.pixels
            if total.pixels % tile.pixels:
                start = minimum(start, last)
            start = kernel.let(start, "pixel")
            pixels = [start + step for step in range(tile.pixels)]
        else:
            # Neighbouring work-items take neighbouring pixels, so that they read memory together.
            lane = kernel.let(kernel.local_id(0), "lane")
            start = kernel.let((x - lane) * tile.pixels + lane, "pixel")
            end = kernel.size("last_pixel", total.pixels - 1)
            pixels = [
                kernel.let(minimum(start + step * wide, end), "pixel")
                for step in range(tile.pixels)
            ]
        return pixels, kernel.let(y * tile.groups, "group")

    def _sums(self, group: Expression) -> list[list[Variable]]:
        """The accumulators, one row for each pixel; they start from the bias."""
        kernel, tile = self.kernel, self.tile
        rows: list[list[Variable]] = []
        for pixel in range(tile.pixels):
            row = []
            for column in range(tile.groups):
                if pixel:
                    start: Expression = rows[0][column]
                else:
                    start = load(self.bias, group + column, kernel.real, tile.width)
                    if tile.split > 1:
                        first = kernel.local_id(2).equals(0)
                        start = guarded(first, start)
                row.append(kernel.variable(start, f"sum{pixel}_{column}_"))
            rows.append(row)
        return rows

    def _accumulate(
        self,
        sums: list[list[Variable]],
        bases: list[tuple[Expression, ...]],
        group: Expression,
        checked: bool,
    ) -> None:
        kernel, taps, tile = self.kernel, self.taps, self.tile
        down = kernel.size("filter_rows", taps.count[0])
        across = kernel.size("filter_columns", taps.count[1])
        slices = self.source.slices
        block = kernel.let(slices * 4 * down * across, "block")
        starts = [kernel.let((group + column) * block, "w") for column in range(tile.groups)]
        corners = self._corners(bases, checked)
        with kernel.loop(down, title="row") as row, kernel.loop(across, title="column") as column:
            places = self._places_under(bases, corners, row, column, checked)
            tap = kernel.let((row * across + column) * (slices * 4), "tap")
            lane = kernel.local_id(2) if tile.split > 1 else const(0)
            with kernel.loop(slices, lane, tile.split, title="slice") as slice_:
                at = kernel.let(tap + slice_ * 4, "k")
                pixels = self._pixels(places, slice_, checked)
                self._multiply(sums, pixels, self._factors([start + at for start in starts]))

    def _corners(self, bases: list[tuple[Expression, ...]], checked: bool) -> list[Expression]:
        """Where each pixel's window starts, in elements: it stays while the taps go by."""
        if not self._reads_alone or checked or self.taps.offset is None:
            return []
        kernel, source = self.kernel, self.source
        if self.taps.neighbours and source.place.layout is Layout.SLICED:
            first = kernel.let(convert(source.corner(bases[0][-1]), "long"), "corner")
            return [first + 4 * number for number in range(len(bases))]
        places = [convert(source.corner(base[-1]), "long") for base in bases]
        return [kernel.let(place, "corner") for place in places]

    def _places_under(
        self,
        bases: list[tuple[Expression, ...]],
        corners: list[Expression],
        row: Expression,
        column: Expression,
        checked: bool,
    ) -> list[tuple[Expression, Expression | None]]:
        """The pixels under one tap, and whether they exist; with corners, the way from them."""
        if corners:
            assert self.taps.offset is not None
            offset = self.kernel.let(self.taps.offset(row, column), "offset")
            return [(corner, offset) for corner in corners]
        return [self._find(base, row, column) for base in bases]

    def _find(
        self, base: tuple[Expression, ...], row: Expression, column: Expression
    ) -> tuple[Expression, Expression | None]:
        kernel = self.kernel
        place, inside = self.taps.find(base, row, column)
        if inside is None:
            return kernel.let(place, "from"), None
        inside = kernel.let(inside, "inside")
        if self.site.device.is_cpu:
            place = where(inside, place, 0)
        return kernel.let(place, "from"), inside

    def _pixels(
        self,
        places: list[tuple[Expression, Expression | None]],
        slice_: Expression,
        checked: bool,
    ) -> list[Callable[[int], Expression]]:
        """How the channels of each input pixel are read: alone on a CPU, four at once elsewhere."""
        source = self.source
        if self._reads_alone and not checked and self.taps.offset is not None:
            offset = places[0][1]
            assert offset is not None
            near = self.kernel.shifted(source.pointer, source.step(offset, slice_), 1, "near")
            return [partial(source.lane_near, near, corner) for corner, _ in places]
        if not self._reads_alone:
            return [source.load(place, slice_, inside).lane for place, inside in places]
        return [partial(self._lane_inside, place, inside, slice_) for place, inside in places]

    def _factors(self, starts: list[Expression]) -> list[Callable[[int], Expression]]:
        """How the weights of each group are read, from where this step of the reduction starts."""
        if not self.site.device.is_cpu:
            return [partial(self._factor, self.weights, start) for start in starts]
        width = self.tile.width
        near = [self.kernel.shifted(self.weights, start, width, "row") for start in starts]
        return [partial(self._factor, pointer, const(0)) for pointer in near]

    def _factor(self, pointer: Pointer, start: Expression, lane: int) -> Expression:
        return load(pointer, start + lane, self.kernel.real, self.tile.width)

    def _lane_inside(
        self, place: Expression, inside: Expression | None, slice_: Expression, lane: int
    ) -> Expression:
        value = self.source.lane(place, slice_, lane)
        return value if inside is None else where(inside, value, 0)

    @property
    def _reads_alone(self) -> bool:
        source = self.source
        return self.site.device.is_cpu and (source.whole or source.type.channels < 4)

    def _multiply(
        self,
        sums: list[list[Variable]],
        pixels: list[Callable[[int], Expression]],
        rows: list[Callable[[int], Expression]],
    ) -> None:
        kernel, tile = self.kernel, self.tile
        for lane in range(self.lanes):
            factors = [kernel.let(row(lane), "f") for row in rows]
            for line, pixel in zip(sums, pixels, strict=True):
                value = kernel.let(pixel(lane), "a")
                for total, factor in zip(line, factors, strict=True):
                    kernel.add(total, widen(value, tile.width) * factor)

    def _store(
        self, sums: list[list[Variable]], pixels: list[Expression], group: Expression
    ) -> None:
        kernel, tile = self.kernel, self.tile
        parts = tile.width // 4
        exact = self.site.output.slices % (parts * tile.groups) == 0
        with kernel.when(kernel.local_id(2).equals(0) if tile.split > 1 else const(True)):
            for column in range(tile.groups):
                for part in range(parts):
                    slice_ = kernel.let((group + column) * parts + part, "slice")
                    with kernel.when(const(True) if exact else slice_ < self.target.slices):
                        parts_of = [line[column].part(part, 4) for line in sums]
                        self._store_pixels(parts_of, pixels, slice_)

    def _store_pixels(
        self, values: list[Expression], pixels: list[Expression], slice_: Expression
    ) -> None:
        """Neighbours by twos where a work-item has a run of them: wider vectors in the tail."""
        run = 2 if self.tile.local[0] == 1 and self.tile.width == 8 else 1
        for first in range(0, len(values), run):
            group = values[first : first + run]
            value = group[0] if len(group) == 1 else vector(*group)
            self.target.store(pixels[first], slice_, value, len(group))


def window_taps(window: Window) -> MakeTaps:
    """The taps of a window that slides over [N,H,W,C]: input row = output row * stride - before +
    tap * dilation.
    """
    return lambda kernel, source, target: _window_taps(window, kernel, source, target)


def _window_taps(window: Window, kernel: Kernel, source: View, target: View) -> Taps:
    filter, stride, dilation, padding = (
        window.filter,
        window.stride,
        window.dilation,
        window.padding,
    )
    before = (padding.top, padding.left)
    padded = padding != NO_PADDING
    height, width = source.axis(1), source.axis(2)
    # Steps are small and few, and written out they make better code than as parameters.
    steps, gaps, offsets = stride, dilation, before
    reach = [kernel.size(f"reach{a}", (filter[a] - 1) * dilation[a]) for a in (0, 1)]

    def start(pixel: Expression) -> tuple[Expression, ...]:
        image, row, column = target.coordinates(pixel)
        top = kernel.let(row * steps[0] - offsets[0], "top")
        left = kernel.let(column * steps[1] - offsets[1], "left")
        return top, left, kernel.let((image * height + top) * width + left, "corner")

    def offset(row: Expression, column: Expression) -> Expression:
        return row * gaps[0] * width + column * gaps[1]

    def find(
        base: tuple[Expression, ...], row: Expression, column: Expression
    ) -> tuple[Expression, Expression | None]:
        place = base[-1] + offset(row, column)
        if not padded:
            return place, None
        y, x = base[0] + row * gaps[0], base[1] + column * gaps[1]
        return place, (y >= 0) & (y < height) & (x >= 0) & (x < width)

    def interior(base: tuple[Expression, ...]) -> Expression:
        rows = (base[0] >= 0) & (base[0] + reach[0] < height)
        return rows & (base[1] >= 0) & (base[1] + reach[1] < width)

    return Taps(filter, start, find, interior if padded else None, offset)

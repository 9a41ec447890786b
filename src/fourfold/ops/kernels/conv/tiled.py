"""The register-tiled convolution of conv2d, fully_connected and transpose_conv2d.

Each work-item computes a tile of `pixels` x `groups * width` outputs in named accumulators. The
weights are packed in the order in which the loops read them, so that the numbers of a group for one
input channel are contiguous.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import chain

import numpy as np

from fourfold.codegen.combine import group_combine
from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import (
    Expression,
    Pointer,
    const,
    guarded,
    load,
    minimum,
    vector,
    widen,
)
from fourfold.codegen.kernel import Kernel, Variable
from fourfold.codegen.view import View
from fourfold.ops.kernels.conv.taps import MakeTaps, Reader
from fourfold.ops.kernels.conv.tile import (
    CPU_VECTOR_CHANNELS,
    ConvTile,
    Work,
    candidate_tiles,
    choose_tile,
    should_time_images,
)
from fourfold.plan.layout import Arranged, ArrayLayout

Source = Callable[[NodeContext, Kernel], View]
L2_INPUT_BYTES = 1 << 18  # of the L2 cache that is left for the input
CACHE_LINE_FLOATS = 16  # floats in a cache line
SHARED_CACHE_BYTES = 1 << 22  # that the shared caches hold at least


def work_of(context: NodeContext, taps: int) -> Work:
    """Return the size of a node's convolution for a filter with `taps` taps."""
    steps = context.input.slices * taps
    return Work(context.output.pixels, context.output.slices, steps, taps)


def tile_choices(context: NodeContext, taps: int) -> list[str]:
    """Return every tile worth timing for a node, as text.

    If images are worth timing, the best tile is tried both ways first, the other tiles last.
    """
    image = context.device.prefers_images
    tiles = [
        replace(one, image=image) for one in candidate_tiles(context.target, work_of(context, taps))
    ]
    if should_time_images(context.device) and not context.options.counts_bytes:
        others = [replace(one, image=not image) for one in tiles]
        tiles = [tiles[0], others[0], *tiles[1:], *others[1:]]
    return [str(tile) for tile in tiles]


def pack_weights(weights: np.ndarray, tile: ConvTile) -> Arranged:
    """Pack [O, taps, I] as [group][tap][slice of four inputs][input][width of outputs].

    Missing inputs and outputs are zeros.
    """
    outputs, taps, inputs = weights.shape
    groups = -(-outputs // (tile.width * tile.groups)) * tile.groups
    factors = ((groups, tile.width), (taps,), (-(-inputs // 4) * 4,))
    return Arranged.of(weights, ArrayLayout(weights.shape, factors, (0, 2, 3, 1)))


def pack_bias(bias: np.ndarray | None, outputs: int, tile: ConvTile) -> np.ndarray:
    block = tile.width * tile.groups
    padded = np.zeros(-(-outputs // block) * block, np.float32)
    padded[:outputs] = 0 if bias is None else bias
    return padded


def _first_input(context: NodeContext, kernel: Kernel) -> View:
    return context.read(kernel, 0)


def block_count(context: NodeContext, tile: ConvTile, tiles: int) -> int:
    """Return into how many blocks of pixels the work is divided.

    A CPU computes all channels of a block before the next one, so that its inputs stay cached.
    """
    read = context.input.bytes
    if not (context.device.is_cpu and tile.items == 1 and read > SHARED_CACHE_BYTES):
        return 1
    return min(tiles, -(-read // L2_INPUT_BYTES))


def _uses_shifted_pointers(context: NodeContext, tile: ConvTile) -> bool:
    """Return True if weights are read through advanced pointers, which suits CPUs."""
    return context.device.is_cpu and context.capabilities.shifted_pointers and not tile.image


class Convolution:
    """One convolution being written: its kernel, views, tile and accumulators."""

    def __init__(
        self,
        context: NodeContext,
        title: str,
        weights: np.ndarray,
        taps: MakeTaps,
        source: Source = _first_input,
        tile: ConvTile | None = None,
        counted: bool = False,
    ) -> None:
        """`weights` is [outputs, taps, inputs], with the taps in the order of the loops."""
        self.context = context
        work = work_of(context, weights.shape[1])
        self.tile = tile or choose_tile(context.target, work, context.choice)
        suffix = "" if self.tile.split == 1 else "_split"
        self.kernel = kernel = context.kernel(title + suffix)
        self.source, self.target = source(context, kernel), context.write(kernel, counted=counted)
        self.kind = kernel.real  # of the accumulators
        self.taps = taps(kernel, self.source, self.target)
        self._pack(weights)
        self.lanes = min(4, context.input.channels)
        self.reader = Reader(self.source, self.taps, context.target)

    def _pack(self, weights: np.ndarray) -> None:
        context, kernel, tile = self.context, self.kernel, self.tile
        self.weights = context.weights(kernel, "weights", pack_weights(weights, tile), tile.image)
        bias = pack_bias(context.array(2), weights.shape[0], tile)
        self.bias = context.packed(kernel, "bias", bias)

    def write(self) -> None:
        """Write the kernel: positions, sums, stores."""
        tile, kernel = self.tile, self.kernel
        pixels, group = self._tile_pixels()
        sums = self._sums(group)
        bases = [
            tuple(kernel.let(part, "base") for part in self.taps.start(pixel)) for pixel in pixels
        ]
        interior = self.taps.interior
        if interior is not None and self.context.device.is_cpu:
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
        group_combine(kernel, [*chain(*sums)], tile.split, operator.add, 2, row)
        self._store(sums, pixels, group)

    def _tile_pixels(self) -> tuple[list[Expression], Expression]:
        """Return the pixels of this work-item's tile and its first group of output channels."""
        tile, kernel, total = self.tile, self.kernel, self.context.output
        wide, tall = tile.local
        # Whole groups: neighbors interleave, so that even the last work-item has a pixel.
        count = -(-total.pixels // (tile.pixels * wide)) * wide
        groups = -(-total.channels // (tile.width * tile.groups))
        blocks, few = block_count(self.context, tile, count), self.context.capabilities.few_kernels
        if blocks > 1:
            count = -(-count // blocks)
            x, y, block = kernel.ids(count, groups, blocks)
            x = kernel.let(block * kernel.size("block_tiles", count) + x, "x_all")
        else:
            local = (wide, tall, tile.split)
            x, y, _ = kernel.ids(count, groups, tile.split, local=local, stay=few or tile.split > 1)
        self.number, self.count = x, count
        if few or (kernel.grid[1] != groups and tile.split > 1):
            end = kernel.size("last_group", groups - 1, always=True) if few else const(groups - 1)
            y = kernel.let(minimum(y, end), "y_in")
        last = kernel.size("last_tile", total.pixels - tile.pixels)
        if wide == 1:
            # The last tile starts early and repeats some pixels, which is cheaper than a guard.
            start = x * tile.pixels
            if few or total.pixels % (tile.pixels * blocks):
                start = minimum(start, last)
            start = kernel.let(start, "pixel")
            pixels = [start + step for step in range(tile.pixels)]
        else:
            # Neighboring work-items take neighboring pixels, so that their reads coalesce.
            lane = kernel.let(kernel.local_id(0), "lane")
            start = kernel.let((x - lane) * tile.pixels + lane, "pixel")
            end = kernel.size("last_pixel", total.pixels - 1)
            pixels = [
                kernel.let(minimum(start + step * wide, end), "pixel")
                for step in range(tile.pixels)
            ]
        return pixels, kernel.let(y * tile.groups, "group")

    def _sums(self, group: Expression) -> list[list[Variable]]:
        """Return the accumulators, one row for each pixel. They start from the bias."""
        kernel, tile = self.kernel, self.tile
        rows: list[list[Variable]] = []
        for pixel in range(tile.pixels):
            row = []
            for column in range(tile.groups):
                if pixel:
                    start: Expression = rows[0][column]
                else:
                    start = load(self.bias, group + column, self.kind, tile.width)
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
        corners = self.reader.corners(bases, checked)
        ahead = self._prefetch_start(group, block)
        with kernel.loop(down, title="row") as row, kernel.loop(across, title="column") as column:
            tap_pixels = self.reader.tap_locations(bases, corners, row, column)
            tap = kernel.let((row * across + column) * (slices * 4), "tap")
            lane = kernel.local_id(2) if tile.split > 1 else const(0)
            with kernel.loop(slices, lane, tile.split, title="slice") as slice_:
                at = kernel.let(tap + slice_ * 4, "k")
                if ahead is not None:
                    kernel.prefetch(self.weights, (ahead + at // 4) * CACHE_LINE_FLOATS)
                pixels = self.reader.pixels(tap_pixels, slice_, from_corners=bool(corners))
                self._multiply(sums, pixels, self._factors([start + at for start in starts]))

    def _prefetch_start(self, group: Expression, block: Expression) -> Expression | None:
        """Return the first cache line of this tile's share of the next weights to prefetch."""
        kernel, tile = self.kernel, self.tile
        if not self.context.device.is_cpu or tile.items > 1 or tile.image:
            return None
        used = tile.groups * tile.width * self.taps.count[0] * self.taps.count[1]
        lines = used * self.context.input.slices * 4 // CACHE_LINE_FLOATS
        share = kernel.size("share", -(-lines // self.count), always=True)
        after = (group + tile.groups) * block * tile.width // CACHE_LINE_FLOATS
        return kernel.let(after + self.number * share, "ahead")

    def _factors(self, starts: list[Expression]) -> list[Callable[[int], Expression]]:
        """Return functions that load the weights of each group from the given starts."""
        if not _uses_shifted_pointers(self.context, self.tile):
            return [partial(self._factor, self.weights, start) for start in starts]
        width = self.tile.width
        near = [self.kernel.shifted(self.weights, start, width, "row") for start in starts]
        return [partial(self._factor, pointer, const(0)) for pointer in near]

    def _factor(self, pointer: Pointer, start: Expression, lane: int) -> Expression:
        return load(pointer, start + lane, self.kernel.real, self.tile.width)

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
        exact = self.context.output.slices % (parts * tile.groups) == 0
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
        """Store pixels, in pairs if a work-item has neighbors: wider vectors in the tail."""
        run = 2 if self.tile.local[0] == 1 and self.tile.width == CPU_VECTOR_CHANNELS else 1
        with self.kernel.run_of(pixels[0], slice_):
            for first in range(0, len(values), run):
                group = values[first : first + run]
                value = group[0] if len(group) == 1 else vector(*group)
                self.target.store(pixels[first], slice_, value, len(group))

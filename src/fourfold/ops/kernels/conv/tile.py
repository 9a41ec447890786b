"""Tiles: how work-items divide the outputs of a convolution, and which tiles to try."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from fourfold.codegen.context import Target
from fourfold.codegen.stage import group_memory
from fourfold.device import DeviceInfo

_TEXT = re.compile(r"(\d+)x(\d+)x(\d+) split (\d+) in (\d+)x(\d+)( by image)?")
MAX_CPU_ACCUMULATORS = 14
CPU_VECTOR_CHANNELS = 8  # output channels per accumulator on a CPU
WARP = 32  # work-items that a GPU unit runs in lockstep, at least
MAX_GROUP_DEPTH = 64  # limit of many GPUs on the third dimension of a work-group
GPU_GROUPS = (
    (32, 4),
    (32, 2),
    (16, 8),
    (16, 4),
    (8, 8),
    (8, 16),
    (64, 2),
    (4, 16),
    (1, 32),
    (1, 8),
    (1, 4),
    (1, 2),
    (1, 1),
)
PIXEL_GROUPS = ((64, 1), (32, 1))  # for work with a single tile along the channels
# Tiles that all convolutions share on GPUs where few kernels should be compiled: up to eight
# accumulators; for large work, for small work with a split reduction, and for sizes between.
COMMON_TILES = (
    "2x1x4 split 1 in 32x2",
    "8x1x4 split 1 in 32x2",
    "2x1x4 split 2 in 32x1",
    "2x1x4 split 4 in 32x2",
    "4x1x4 split 8 in 1x4",
    "8x1x4 split 4 in 1x8",
    "8x1x4 split 16 in 1x2",
    "1x2x4 split 16 in 1x2",
    "1x1x4 split 32 in 1x1",
)
# Tiles that all convolutions share on a CPU that emulates a GPU: no work-items that wait for each
# other, and four neighbors in lockstep.
EMULATED_TILES = (
    "8x2x4 split 1 in 4x1",
    "8x1x4 split 1 in 4x1",
    "4x1x4 split 1 in 4x1",
    "1x1x4 split 1 in 1x4",
)
BUILD_COST_LOADS = 11000.0  # compile time of one more accumulator, as an equivalent number of loads


@dataclass(frozen=True)
class ConvTile:
    """The outputs of one work-item, and the shape of a work-group.

    `width` is the number of output channels per accumulator, `split` the number of work-items that
    share a reduction, `local` the work-group along pixels and channels. `image` reads the weights
    through an image if they fit in one.
    """

    pixels: int
    groups: int
    width: int
    split: int = 1
    local: tuple[int, int] = (1, 1)
    image: bool = False

    def __str__(self) -> str:
        wide, tall = self.local
        form = f"{self.pixels}x{self.groups}x{self.width} split {self.split} in {wide}x{tall}"
        return form + (" by image" if self.image else "")

    @staticmethod
    def parse(text: str) -> ConvTile | None:
        """Parse the text of `str(tile)`; None if it is not a tile."""
        match = _TEXT.fullmatch(text)
        if match is None:
            return None
        *numbers, image = match.groups()
        pixels, groups, width, split, wide, tall = map(int, numbers)
        return ConvTile(pixels, groups, width, split, (wide, tall), image is not None)

    @property
    def items(self) -> int:
        """Work-items in a group."""
        return self.local[0] * self.local[1] * self.split


@dataclass(frozen=True)
class Work:
    """The size of a convolution.

    `slices` are slices of output channels, `reduction` is slices of input channels times taps.
    """

    pixels: int
    slices: int
    reduction: int
    taps: int = 1

    @property
    def depth(self) -> int:
        """Slices of input channels, which the work-items of a split reduction divide."""
        return self.reduction // self.taps

    def tiles(self, tile: ConvTile) -> tuple[int, int]:
        """Return the number of tiles along pixels and channels."""
        return -(-self.pixels // tile.pixels), -(-self.slices * 4 // (tile.width * tile.groups))


def choose_tile(target: Target, work: Work, choice: str | None) -> ConvTile:
    """Return the tile that tuning recorded for this work, or a good one by its size."""
    tile = None if choice is None else ConvTile.parse(choice)
    if tile is not None and tile_fits(target, work, tile):
        return tile
    if target.device.is_cpu and CPU_VECTOR_CHANNELS in target.capabilities.widths:
        tile = _cpu_tile(work)
    elif target.capabilities.few_kernels and not target.device.is_cpu:
        tile = _common_tile(target, work)
    else:
        tile = candidate_tiles(target, work)[0]
    return replace(tile, image=target.device.prefers_images)


def _common_tile(target: Target, work: Work) -> ConvTile:
    """Return the best of the tiles that all convolutions share."""
    if target.emulated:
        every = [tile for tile in map(ConvTile.parse, EMULATED_TILES) if tile is not None]
        fitting = [tile for tile in every if tile_fits(target, work, tile)]
        return min(fitting, key=lambda tile: _emulated_cost(work, tile))
    few = [tile for tile in map(ConvTile.parse, COMMON_TILES) if tile is not None]
    usable = [
        tile
        for tile in few
        if tile.split <= work.depth and _fills_groups(work, tile) and tile_fits(target, work, tile)
    ]
    return min(usable, key=lambda tile: _gpu_cost(target.device, work, tile), default=few[0])


def should_time_images(device: DeviceInfo) -> bool:
    """Return True if reading weights through an image is worth timing.

    CPUs have no texture units, and stages of one launch cannot use images.
    """
    return device.image_texels > 0 and not device.is_cpu and not device.resident


def tile_fits(target: Target, work: Work, tile: ConvTile) -> bool:
    """Return True if the device can run this tile for this work and the language supports it."""
    device = target.device
    if min(tile.pixels, tile.groups, tile.split, *tile.local) < 1:
        return False
    if tile.width not in (4, CPU_VECTOR_CHANNELS) or tile.width not in target.capabilities.widths:
        return False
    if tile.pixels * tile.groups > 32 or tile.items > device.max_work_group:
        return False
    if tile.split > MAX_GROUP_DEPTH:
        return False
    if tile.local[0] == 1 and tile.pixels > work.pixels:
        return False
    shared = tile.items * tile.pixels * tile.groups * tile.width * 4
    power = tile.split & (tile.split - 1) == 0
    return power and (tile.split == 1 or shared <= group_memory(device, tile.items))


def candidate_tiles(target: Target, work: Work) -> list[ConvTile]:
    """Return every tile worth timing, the most promising first."""
    device = target.device
    wide = max(width for width in (4, CPU_VECTOR_CHANNELS) if width in target.capabilities.widths)
    every = _cpu_tiles(work, wide) if device.is_cpu else _gpu_tiles(device, work)
    usable = [tile for tile in every if tile_fits(target, work, tile)]
    cost = _cpu_cost if device.is_cpu else _gpu_cost
    return sorted(usable, key=lambda tile: (cost(device, work, tile), str(tile)))


def _cpu_tile(work: Work) -> ConvTile:
    """Return a tile of about twelve accumulators, which leaves four of 16 registers for
    operands.
    """
    pixels, pairs = work.pixels, -(-work.slices // 2)
    if pixels == 1:
        return ConvTile(1, min(4, pairs), CPU_VECTOR_CHANNELS)
    if pairs == 1:
        return ConvTile(min(7, pixels), 1, CPU_VECTOR_CHANNELS)
    if pairs % 2 and pairs % 3 == 0:
        return ConvTile(min(4, pixels), 3, CPU_VECTOR_CHANNELS)
    pixels_per_tile = 5 if pixels % 6 and (pixels % 5 == 0 or pixels <= 49) else 6
    return ConvTile(min(pixels_per_tile, pixels), 2, CPU_VECTOR_CHANNELS)


def _cpu_tiles(work: Work, width: int) -> Iterator[ConvTile]:
    for groups in range(1, 6):
        for pixels in range(1, 9):
            if pixels * groups <= MAX_CPU_ACCUMULATORS and groups <= -(-work.slices * 4 // width):
                yield ConvTile(pixels, groups, width)


def _cpu_cost(device: DeviceInfo, work: Work, tile: ConvTile) -> float:
    """Estimate multiplications, waste included, plus the loads that feed them."""
    across, down = work.tiles(tile)
    products = across * down * tile.pixels * tile.groups
    feed = (tile.pixels + 2 * tile.groups) / (tile.pixels * tile.groups)
    crowded = 1.4 if tile.pixels * tile.groups > 12 else 1.0
    return products * (1.0 + 0.5 * feed) * crowded


def _gpu_tiles(device: DeviceInfo, work: Work) -> Iterator[ConvTile]:
    for pixels in (1, 2, 4, 8):
        for groups in (1, 2, 4):
            if groups > work.slices or (pixels > 1 and pixels > work.pixels):
                continue
            for split in (1, 2, 4, 8, 16, 32, 64):
                if split > max(1, work.reduction // 2):
                    continue
                for wide, tall in _gpu_groups(device, -(-work.slices // groups)):
                    tile = ConvTile(pixels, groups, 4, split, (wide, tall))
                    if 32 <= tile.items <= 256 and _fills_groups(work, tile):
                        yield tile
    yield ConvTile(1, 1, 4)


def _gpu_groups(device: DeviceInfo, down: int) -> Iterator[tuple[int, int]]:
    yield from GPU_GROUPS
    if down == 1 and not device.resident:
        yield from PIXEL_GROUPS


def _fills_groups(work: Work, tile: ConvTile) -> bool:
    """Return True unless most of a group is beyond the edge of the work."""
    across, down = work.tiles(tile)
    wide, tall = tile.local
    return (wide == 1 or wide < 2 * across) and (tall == 1 or tall < 2 * down)


def _gpu_cost(device: DeviceInfo, work: Work, tile: ConvTile) -> float:
    """Estimate the steps of the busiest unit: arithmetic and loads of its groups."""
    across, down = work.tiles(tile)
    wide, tall = tile.local
    groups = -(-across // wide) * -(-down // tall)
    waves = -(-groups // device.compute_units)
    resident = min(waves, max(1, 1024 // tile.items))
    steps = -(-work.reduction // tile.split)
    arithmetic = tile.pixels * tile.groups * 4.0
    loads = tile.pixels + 4.0 * tile.groups
    # Few resident work-items cannot hide memory latency.
    latency = 40.0 / max(1.0, tile.items * resident / 128)
    item = steps * (arithmetic + 2.0 * loads + latency)
    finish = 8.0 * tile.pixels * tile.groups + (60.0 if tile.split > 1 else 0.0)
    # A group occupies whole warps even if it has fewer work-items, unless one launch packs them.
    occupied = tile.items if device.resident else max(tile.items, WARP)
    return waves * occupied / 128 * (item + finish) + (item + finish)


def _emulated_cost(work: Work, tile: ConvTile) -> float:
    """Estimate the work of all cores in loads, waste included, plus a share of compile time.

    With SwiftShader, four sums take slightly less time than a load.
    """
    across, down = work.tiles(tile)
    wide, tall = tile.local
    items = -(-across // wide) * wide * -(-down // tall) * tall
    sums = tile.pixels * tile.groups
    loads = tile.pixels + 4 * tile.groups
    return items * work.reduction * (0.8 * sums + loads) + BUILD_COST_LOADS * sums

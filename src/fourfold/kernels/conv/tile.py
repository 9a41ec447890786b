"""Tiles: how the outputs of a convolution are shared out among work-items, and which tiles to
try.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from fourfold.device import DeviceInfo
from fourfold.kernel.context import Target
from fourfold.kernel.stage import group_memory

_TEXT = re.compile(r"(\d+)x(\d+)x(\d+) split (\d+) in (\d+)x(\d+)( by image)?")
CPU_ACCUMULATORS = 14
WIDE = 8  # output channels of an accumulator on a CPU
WARP = 32  # work-items that a GPU's unit runs in step, at the least
DEEPEST = 64  # work-items of a group along its third side, which many GPUs have no more of
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
PIXEL_GROUPS = ((64, 1), (32, 1))  # where there is but one tile along the channels
# What all convolutions share on GPUs where kernels are to be few: up to eight accumulators, large
# work, small work by groups that split its reduction, and what lies in between.
FEW_TILES = (
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
# The same where a processor stands in for a GPU: no work-items that wait for each other, and four
# neighbours in step.
EMULATED_TILES = (
    "8x2x4 split 1 in 4x1",
    "8x1x4 split 1 in 4x1",
    "4x1x4 split 1 in 4x1",
    "1x1x4 split 1 in 1x4",
)
BUILDING = 11000.0  # loads that an accumulator is worth less, for a text that takes so much longer


@dataclass(frozen=True)
class ConvTile:
    """What one work-item makes, and how work-items form groups.

    `width` is how many output channels one accumulator holds, `split` over how many work-items the
    reduction is spread, `local` the work-group along pixels and channels. `image` tells whether
    weights are read by an image, if they fit in one.
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
        """The tile that `str` wrote, or None."""
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
    """The size of a convolution: output pixels, slices of output channels, and steps of the
    reduction (slices of input channels times taps).
    """

    pixels: int
    slices: int
    reduction: int
    taps: int = 1

    @property
    def depth(self) -> int:
        """Slices of input channels, which work-items that split a reduction share out."""
        return self.reduction // self.taps

    def tiles(self, tile: ConvTile) -> tuple[int, int]:
        """How many tiles there are along pixels and channels."""
        return -(-self.pixels // tile.pixels), -(-self.slices * 4 // (tile.width * tile.groups))


def choose_tile(target: Target, work: Work, choice: str | None) -> ConvTile:
    """The tile that was found best for this work, or a good one from its size alone."""
    tile = None if choice is None else ConvTile.parse(choice)
    if tile is not None and tile_fits(target, work, tile):
        return tile
    if target.device.is_cpu and WIDE in target.capabilities.widths:
        tile = _cpu_tile(work)
    elif target.capabilities.few_kernels and not target.device.is_cpu:
        tile = _common_tile(target, work)
    else:
        tile = candidates(target, work)[0]
    return replace(tile, image=target.device.prefers_images)


def _common_tile(target: Target, work: Work) -> ConvTile:
    """The best of those few that others use, too."""
    if target.emulated:
        every = [tile for tile in map(ConvTile.parse, EMULATED_TILES) if tile is not None]
        fitting = [tile for tile in every if tile_fits(target, work, tile)]
        return min(fitting, key=lambda tile: _emulated_cost(work, tile))
    few = [tile for tile in map(ConvTile.parse, FEW_TILES) if tile is not None]
    usable = [
        tile
        for tile in few
        if tile.split <= work.depth and _is_snug(work, tile) and tile_fits(target, work, tile)
    ]
    return min(usable, key=lambda tile: _gpu_cost(target.device, work, tile), default=few[0])


def tries_images(device: DeviceInfo) -> bool:
    """Whether weights by image are worth timing: CPUs have no texture units, and where trials are
    stages of one launch there are no images.
    """
    return device.image_texels > 0 and not device.is_cpu and not device.resident


def tile_fits(target: Target, work: Work, tile: ConvTile) -> bool:
    """Whether the device can run this tile for this work at all, and the language write it."""
    device = target.device
    if min(tile.pixels, tile.groups, tile.split, *tile.local) < 1:
        return False
    if tile.width not in (4, WIDE) or tile.width not in target.capabilities.widths:
        return False
    if tile.pixels * tile.groups > 32 or tile.items > device.max_work_group:
        return False
    if tile.split > DEEPEST:
        return False
    if tile.local[0] == 1 and tile.pixels > work.pixels:
        return False
    shared = tile.items * tile.pixels * tile.groups * tile.width * 4
    power = tile.split & (tile.split - 1) == 0
    return power and (tile.split == 1 or shared <= group_memory(device, tile.items))


def candidates(target: Target, work: Work) -> list[ConvTile]:
    """Every tile worth timing, the most promising first."""
    device = target.device
    wide = max(width for width in (4, WIDE) if width in target.capabilities.widths)
    every = _cpu_tiles(work, wide) if device.is_cpu else _gpu_tiles(device, work)
    usable = [tile for tile in every if tile_fits(target, work, tile)]
    cost = _cpu_cost if device.is_cpu else _gpu_cost
    return sorted(usable, key=lambda tile: (cost(device, work, tile), str(tile)))


def _cpu_tile(work: Work) -> ConvTile:
    """Twelve accumulators of eight fill sixteen vector registers with room for their food."""
    pixels, pairs = work.pixels, -(-work.slices // 2)
    if pixels == 1:
        return ConvTile(1, min(4, pairs), WIDE)
    if pairs == 1:
        return ConvTile(min(7, pixels), 1, WIDE)
    if pairs % 2 and pairs % 3 == 0:
        return ConvTile(min(4, pixels), 3, WIDE)
    wanted = 5 if pixels % 6 and (pixels % 5 == 0 or pixels <= 49) else 6
    return ConvTile(min(wanted, pixels), 2, WIDE)


def _cpu_tiles(work: Work, width: int) -> Iterator[ConvTile]:
    for groups in range(1, 6):
        for pixels in range(1, 9):
            if pixels * groups <= CPU_ACCUMULATORS and groups <= -(-work.slices * 4 // width):
                yield ConvTile(pixels, groups, width)


def _cpu_cost(device: DeviceInfo, work: Work, tile: ConvTile) -> float:
    """Multiplications, waste included, plus the loads that feed them."""
    across, down = work.tiles(tile)
    made = across * down * tile.pixels * tile.groups
    feed = (tile.pixels + 2 * tile.groups) / (tile.pixels * tile.groups)
    crowded = 1.4 if tile.pixels * tile.groups > 12 else 1.0
    return made * (1.0 + 0.5 * feed) * crowded


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
                    if 32 <= tile.items <= 256 and _is_snug(work, tile):
                        yield tile
    yield ConvTile(1, 1, 4)


def _gpu_groups(device: DeviceInfo, down: int) -> Iterator[tuple[int, int]]:
    yield from GPU_GROUPS
    if down == 1 and not device.resident:
        yield from PIXEL_GROUPS


def _is_snug(work: Work, tile: ConvTile) -> bool:
    """Whether a group is not mostly beyond the edge of the work."""
    across, down = work.tiles(tile)
    wide, tall = tile.local
    return (wide == 1 or wide < 2 * across) and (tall == 1 or tall < 2 * down)


def _gpu_cost(device: DeviceInfo, work: Work, tile: ConvTile) -> float:
    """The steps of the busiest unit: arithmetic and loads of the groups that it must run."""
    across, down = work.tiles(tile)
    wide, tall = tile.local
    groups = -(-across // wide) * -(-down // tall)
    waves = -(-groups // device.compute_units)
    resident = min(waves, max(1, 1024 // tile.items))
    steps = -(-work.reduction // tile.split)
    arithmetic = tile.pixels * tile.groups * 4.0
    loads = tile.pixels + 4.0 * tile.groups
    # Few resident work-items cannot hide the latency of memory.
    latency = 40.0 / max(1.0, tile.items * resident / 128)
    item = steps * (arithmetic + 2.0 * loads + latency)
    finish = 8.0 * tile.pixels * tile.groups + (60.0 if tile.split > 1 else 0.0)
    # A group takes whole warps, however few its work-items are, unless one launch packs them.
    taken = tile.items if device.resident else max(tile.items, WARP)
    return waves * taken / 128 * (item + finish) + (item + finish)


def _emulated_cost(work: Work, tile: ConvTile) -> float:
    """What all cores do together, waste included, in loads, and a share of what the compiler does.
    Four sums take SwiftShader not quite as long as a load.
    """
    across, down = work.tiles(tile)
    wide, tall = tile.local
    items = -(-across // wide) * wide * -(-down // tall) * tall
    sums = tile.pixels * tile.groups
    loads = tile.pixels + 4 * tile.groups
    return items * work.reduction * (0.8 * sums + loads) + BUILDING * sums

"""Tiles for matrix units: how a convolution is cut into warps, and what each way costs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.types import LARGEST_HALF

_TEXT = re.compile(r"(\d+)x(\d+) by (\d+) split (\d+) ahead (\d+)( early)?")
ROWS, COLUMNS, DEPTH, WARP = 16, 8, 16, 32
REGISTERS = 190  # that a work-item may spend on blocks and on what is read ahead
LATENCY = 170.0  # clocks that a wait for memory adds
UNIT_WARPS = 8  # that a unit runs at once


@dataclass(frozen=True)
class MatrixTile:
    """A warp makes `rows` x `columns` blocks of 16 pixels x 8 channels; a group has `warps` along
    the channels, and `split` more of each that share the reduction. `ahead` steps are read before
    the first of them is multiplied, so that the reads wait together; an `early` tile reads the next
    ones before it multiplies those that are there.
    """

    rows: int
    columns: int
    warps: int
    split: int
    ahead: int = 1
    early: bool = False

    def __str__(self) -> str:
        size = f"{self.rows}x{self.columns} by {self.warps}"
        return f"{size} split {self.split} ahead {self.ahead}{' early' * self.early}"

    @staticmethod
    def parse(text: str | None) -> MatrixTile | None:
        match = _TEXT.fullmatch(text or "")
        if match is None:
            return None
        rows, columns, warps, split, ahead = (int(part) for part in match.groups()[:5])
        return MatrixTile(rows, columns, warps, split, ahead, match[6] is not None)

    @property
    def blocks(self) -> int:
        return self.rows * self.columns


@dataclass(frozen=True)
class MatrixWork:
    """What is to be made: `pixels` x `channels`, each the sum of `steps` x 16 products.

    `reads` and `sums` tell what two inputs cost: reads of four numbers, and clocks to combine them;
    `filters` are reads of what they are combined with. A `wide` input is floats, which are
    multiplied in two parts, and so are `fine` weights.
    """

    pixels: int
    channels: int
    steps: int
    reads: int = 2
    sums: int = 0
    filters: int = 0
    wide: bool = False
    fine: bool = False

    def groups(self, tile: MatrixTile) -> int:
        across = -(-self.pixels // (ROWS * tile.rows))
        return across * -(-self.channels // (COLUMNS * tile.columns * tile.warps))


class _Room(NamedTuple):
    """What a device has for tiles."""

    compute_units: int
    max_work_group: int
    local_memory: int


_EVERY = [
    MatrixTile(*numbers)
    for numbers in product(
        (1, 2, 4),
        (1, 2, 4, 8),
        (1, 2, 4),
        (1, 2, 4, 8, 16),
        (1, 2, 3, 4, 6, 8, 9, 16),
        (False, True),
    )
]


def tiles(device: DeviceInfo, work: MatrixWork) -> tuple[MatrixTile, ...]:
    """Every tile worth timing, the most promising first."""
    return _in_order(_room(device), work)


def clocks(device: DeviceInfo, work: MatrixWork) -> float:
    """About how many clocks the work takes, by the best tile there is."""
    room = _room(device)
    return _cost(room, work, _in_order(room, work)[0])


def matrix_tile_fits(device: DeviceInfo, work: MatrixWork, tile: MatrixTile) -> bool:
    """Whether the device can run this tile, and the work has a use for it."""
    return _fits(_room(device), work, tile)


def _room(device: DeviceInfo) -> _Room:
    return _Room(device.compute_units, device.max_work_group, device.local_memory)


@lru_cache(256)  # a layer is asked for several times, and many layers are equal
def _in_order(room: _Room, work: MatrixWork) -> tuple[MatrixTile, ...]:
    usable = (tile for tile in _EVERY if _fits(room, work, tile))
    return tuple(sorted(usable, key=lambda tile: (_cost(room, work, tile), str(tile))))


def _fits(room: _Room, work: MatrixWork, tile: MatrixTile) -> bool:
    items = WARP * tile.warps * tile.split
    # As stages of one launch, as many groups as fit are there at once.
    shared = UNIT_WARPS * WARP * tile.blocks * 16 if tile.split > 1 else 0
    if items > min(UNIT_WARPS * WARP, room.max_work_group) or shared > room.local_memory - 1024:
        return False
    columns = -(-work.channels // COLUMNS)
    narrow = tile.columns * tile.warps < 2 * columns
    low = tile.rows == 1 or tile.rows * ROWS < work.pixels + ROWS
    whole = work.steps % tile.ahead == 0 and tile.split * tile.ahead <= work.steps
    if tile.early and (work.filters or tile.split * tile.ahead >= work.steps):
        return False
    if work.filters:
        return narrow and low and whole and held(work, tile) >= min(tile.ahead, 2)
    words = tile.ahead * (_inputs(work, tile) + _factors(work, tile))
    words = words * (1 + tile.early) + 4 * tile.blocks
    return narrow and low and whole and words <= REGISTERS


def held(work: MatrixWork, tile: MatrixTile) -> int:
    """How many steps of inputs there is room for where a filter is applied on the way: beside the
    factors of all steps, the sums, and filters for two steps.
    """
    taken = _factors(work, tile) * tile.ahead + 4 * tile.blocks + 8 * work.filters
    return max(0, min(tile.ahead, (REGISTERS - taken) // _inputs(work, tile)))


def _inputs(work: MatrixWork, tile: MatrixTile) -> int:
    """Words of what a step reads for its pixels."""
    return 2 * tile.rows * work.reads * (1 + work.wide)


def _factors(work: MatrixWork, tile: MatrixTile) -> int:
    """Words of the weights of a step."""
    return 2 * tile.columns * (1 + work.fine)


@dataclass(frozen=True)
class _Clocks:
    """What each part of a tile's work takes: a further wait as part of the first one, a step, each
    of its sums, a read, the end of a block, and what comes once.
    """

    wait: float
    step: float
    sum: float
    read: float
    last: float
    once: float = 0.0


# Fitted to 960 tiles of 50 layers, and to 300 tiles of 21 layers with a filter on the way, timed as
# stages on an H200; on average the tile that comes first took 1.02 and 1.03 times as long as
# the best of those that were timed.
_PLAIN = _Clocks(wait=0.69, step=67.0, sum=17.4, read=4.4, last=166.0)
_FILTERED = _Clocks(wait=1.46, step=0.0, sum=52.4, read=4.2, last=63.0, once=641.0)


def _cost(room: _Room, work: MatrixWork, tile: MatrixTile) -> float:
    """About how many clocks the busiest unit needs: its rounds, times what a round takes."""
    take = _FILTERED if work.filters else _PLAIN
    in_group = tile.warps * tile.split
    at_once = max(1, UNIT_WARPS // in_group) * room.compute_units
    groups = work.groups(tile)
    rounds = -(-groups // at_once)
    warps = in_group * -(-min(groups, at_once) // room.compute_units)
    waits = -(-work.steps // (tile.split * tile.ahead))
    steps = waits * tile.ahead
    reads = (_inputs(work, tile) + _factors(work, tile)) // 2 + work.filters
    more_waits = (waits - 1) * (0.01 if tile.early else take.wait)
    chain = steps * (take.step + 21.6 * tile.early + take.sum * tile.rows * work.sums)
    share = 2.2 * tile.blocks + 7.8 * tile.split if tile.split > 1 else 0.0
    together = warps * (steps * take.read * reads + share + 7.7 * tile.blocks)
    last = take.last * -(-tile.blocks // tile.split) + take.once
    return rounds * (LATENCY * (1.0 + more_waits) + chain + together + last)


def pack_for_warps(weights: np.ndarray) -> np.ndarray:
    """[O, inputs] -> [block of 8 outputs][step of 16 inputs][work-item][4 inputs]."""
    outputs, inputs = weights.shape
    blocks, steps = -(-outputs // COLUMNS), -(-inputs // DEPTH)
    padded = np.zeros((blocks * COLUMNS, steps * DEPTH), weights.dtype)
    padded[:outputs, :inputs] = weights
    parts = padded.reshape(blocks, COLUMNS, steps, 4, 4)
    return parts.transpose(0, 2, 1, 3, 4).reshape(-1)


def split_weights(weights: np.ndarray, parts: int) -> list[np.ndarray]:
    """Weights as halves, and as a second part what these leave over: together almost as good as
    floats.
    """
    first = np.clip(weights, -LARGEST_HALF, LARGEST_HALF).astype(np.float16)
    return [first] if parts == 1 else [first, (weights - first).astype(np.float16)]

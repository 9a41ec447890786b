"""Tiles for matrix units: how a convolution is divided among warps, and what each tile costs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.types import MAX_FLOAT16

_TEXT = re.compile(r"(\d+)x(\d+) by (\d+) split (\d+) ahead (\d+)( early)?")
ROWS, COLUMNS, DEPTH, WARP = 16, 8, 16, 32
MAX_REGISTERS = 190  # of a work-item for blocks and for values read ahead
LATENCY_CLOCKS = 170.0  # clocks of one wait for memory
UNIT_WARPS = 8  # warps that a unit runs at once


@dataclass(frozen=True)
class MatrixTile:
    """The blocks of a warp and the warps of a group.

    A warp computes `rows` x `columns` blocks of 16 pixels x 8 channels. A group has `warps` warps
    along the channels, each `split` times to share the reduction. `ahead` steps are read before the
    first is multiplied, so that their latencies overlap. An `early` tile reads the next steps
    before it multiplies the current ones.
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
    """The size of a matrix product: `pixels` x `channels` sums of `steps` x 16 products.

    `reads` and `sums` are the cost of two inputs: reads of four numbers, and clocks to combine
    them. `filters` are the reads of filter weights. A `wide` input is fp32 and multiplied in two
    parts, and so are `fine` weights.
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


class _DeviceLimits(NamedTuple):
    """The resources of a device that limit tiles."""

    compute_units: int
    max_work_group: int
    local_memory: int


_TILES = [
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


def ranked_tiles(device: DeviceInfo, work: MatrixWork) -> tuple[MatrixTile, ...]:
    """Return every tile worth timing, the most promising first."""
    return _in_order(_device_limits(device), work)


def clocks(device: DeviceInfo, work: MatrixWork) -> float:
    """Estimate the clocks of the work with the best tile."""
    limits = _device_limits(device)
    return _cost(limits, work, _in_order(limits, work)[0])


def matrix_tile_fits(device: DeviceInfo, work: MatrixWork, tile: MatrixTile) -> bool:
    """Return True if the device can run this tile and the work can use it."""
    return _fits(_device_limits(device), work, tile)


def _device_limits(device: DeviceInfo) -> _DeviceLimits:
    return _DeviceLimits(device.compute_units, device.max_work_group, device.local_memory)


@lru_cache(256)  # a layer is queried several times, and many layers are equal
def _in_order(limits: _DeviceLimits, work: MatrixWork) -> tuple[MatrixTile, ...]:
    usable = (tile for tile in _TILES if _fits(limits, work, tile))
    return tuple(sorted(usable, key=lambda tile: (_cost(limits, work, tile), str(tile))))


def _fits(limits: _DeviceLimits, work: MatrixWork, tile: MatrixTile) -> bool:
    items = WARP * tile.warps * tile.split
    # As stages of one launch, as many groups as fit run at once.
    shared = UNIT_WARPS * WARP * tile.blocks * 16 if tile.split > 1 else 0
    if items > min(UNIT_WARPS * WARP, limits.max_work_group) or shared > limits.local_memory - 1024:
        return False
    columns = -(-work.channels // COLUMNS)
    narrow = tile.columns * tile.warps < 2 * columns
    low = tile.rows == 1 or tile.rows * ROWS < work.pixels + ROWS
    divides = work.steps % tile.ahead == 0 and tile.split * tile.ahead <= work.steps
    if tile.early and (work.filters or tile.split * tile.ahead >= work.steps):
        return False
    if work.filters:
        return narrow and low and divides and steps_in_registers(work, tile) >= min(tile.ahead, 2)
    words = tile.ahead * (_inputs(work, tile) + _factors(work, tile))
    words = words * (1 + tile.early) + 4 * tile.blocks
    return narrow and low and divides and words <= MAX_REGISTERS


def steps_in_registers(work: MatrixWork, tile: MatrixTile) -> int:
    """Return how many steps of inputs fit in registers behind a depthwise filter.

    The factors of all steps, the sums, and the filters of two steps take the other registers.
    """
    used = _factors(work, tile) * tile.ahead + 4 * tile.blocks + 8 * work.filters
    return max(0, min(tile.ahead, (MAX_REGISTERS - used) // _inputs(work, tile)))


def _inputs(work: MatrixWork, tile: MatrixTile) -> int:
    """Return the words that a step reads for its pixels."""
    return 2 * tile.rows * work.reads * (1 + work.wide)


def _factors(work: MatrixWork, tile: MatrixTile) -> int:
    """Return the words of the weights of a step."""
    return 2 * tile.columns * (1 + work.fine)


@dataclass(frozen=True)
class _Clocks:
    """Cost coefficients of a tile, in clocks.

    `wait` is a further wait relative to the first, `last` the end of a block, `once` a fixed cost.
    """

    wait: float
    step: float
    sum: float
    read: float
    last: float
    once: float = 0.0


# Fitted to 960 tiles of 50 layers, and to 300 tiles of 21 layers with a depthwise filter in front,
# timed as stages on an H200. On average the first tile took 1.02 and 1.03 times as long as the best
# tile that was timed.
_PLAIN = _Clocks(wait=0.69, step=67.0, sum=17.4, read=4.4, last=166.0)
_FILTERED = _Clocks(wait=1.46, step=0.0, sum=52.4, read=4.2, last=63.0, once=641.0)


def _cost(limits: _DeviceLimits, work: MatrixWork, tile: MatrixTile) -> float:
    """Estimate the clocks of the busiest unit: its rounds times the cost of a round."""
    rates = _FILTERED if work.filters else _PLAIN
    in_group = tile.warps * tile.split
    at_once = max(1, UNIT_WARPS // in_group) * limits.compute_units
    groups = work.groups(tile)
    rounds = -(-groups // at_once)
    warps = in_group * -(-min(groups, at_once) // limits.compute_units)
    waits = -(-work.steps // (tile.split * tile.ahead))
    steps = waits * tile.ahead
    reads = (_inputs(work, tile) + _factors(work, tile)) // 2 + work.filters
    more_waits = (waits - 1) * (0.01 if tile.early else rates.wait)
    chain = steps * (rates.step + 21.6 * tile.early + rates.sum * tile.rows * work.sums)
    share = 2.2 * tile.blocks + 7.8 * tile.split if tile.split > 1 else 0.0
    together = warps * (steps * rates.read * reads + share + 7.7 * tile.blocks)
    last = rates.last * -(-tile.blocks // tile.split) + rates.once
    return rounds * (LATENCY_CLOCKS * (1.0 + more_waits) + chain + together + last)


def pack_for_warps(weights: np.ndarray) -> np.ndarray:
    """Pack [O, inputs] as [block of 8 outputs][step of 16 inputs][work-item][4 inputs]."""
    outputs, inputs = weights.shape
    blocks, steps = -(-outputs // COLUMNS), -(-inputs // DEPTH)
    padded = np.zeros((blocks * COLUMNS, steps * DEPTH), weights.dtype)
    padded[:outputs, :inputs] = weights
    parts = padded.reshape(blocks, COLUMNS, steps, 4, 4)
    return parts.transpose(0, 2, 1, 3, 4).reshape(-1)


def split_weights(weights: np.ndarray, parts: int) -> list[np.ndarray]:
    """Return weights as fp16, and with `parts` 2 also their rounding errors as fp16.

    Together they are almost as precise as fp32.
    """
    first = np.clip(weights, -MAX_FLOAT16, MAX_FLOAT16).astype(np.float16)
    return [first] if parts == 1 else [first, (weights - first).astype(np.float16)]

"""Convolution on matrix units: a warp multiplies 16 pixels by 8 channels, 16 inputs at a time.

The order of the inputs within a step does not matter as long as both factors agree on it, so each
work-item takes the four halves of one slice just as they lie in memory, and the weights are packed
in the order in which the work-items want them: no local memory, no shuffling, every read whole.
"""

from __future__ import annotations

import math
import operator
import re
from dataclasses import dataclass

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.kernel.expression import (
    Expression,
    call,
    const,
    guarded,
    load,
    load_raw,
    minimum,
    vector,
    where,
)
from fourfold.kernel.kernel import Variable
from fourfold.kernel.place import Layout
from fourfold.kernel.site import Site
from fourfold.ops._taps import MakeTaps
from fourfold.types import DType

_TEXT = re.compile(r"(\d+)x(\d+) by (\d+) split (\d+) ahead (\d+)")
ROWS, COLUMNS, DEPTH, WARP = 16, 8, 16, 32
REGISTERS = 128  # that a work-item may spend on blocks and on what is read ahead


@dataclass(frozen=True)
class MatrixTile:
    """A warp makes `rows` x `columns` blocks of 16 pixels x 8 channels; a group has `warps` along
    the channels, and `split` more of each that share the reduction. `ahead` steps are read before
    the first of them is multiplied, so that the reads wait together.
    """

    rows: int
    columns: int
    warps: int
    split: int
    ahead: int = 1

    def __str__(self) -> str:
        size = f"{self.rows}x{self.columns} by {self.warps}"
        return f"{size} split {self.split} ahead {self.ahead}"

    @staticmethod
    def parse(text: str | None) -> MatrixTile | None:
        match = _TEXT.fullmatch(text or "")
        return None if match is None else MatrixTile(*(int(part) for part in match.groups()))


def refuses_matrix_units(site: Site) -> str | None:
    """Why the node at a site cannot use them, or None."""
    place = site.places[str(site.node.inputs[0])]
    if not site.device.matrix_units:
        return "the device has no matrix units"
    if site.options.precision != "mixed":
        return "matrix units multiply halves only"
    if place.dtype is not DType.F16 or place.layout is not Layout.SLICED:
        return "the input does not lie in slices of four halves"
    if site.input.slices % 4 or site.output.pixels < 2:
        return "there are too few inputs or pixels for a block"
    return None


def matrix_choices(site: Site) -> list[str]:
    return [str(tile) for tile in _tiles(site)]


def _tiles(site: Site) -> list[MatrixTile]:
    """Every tile worth timing, the most promising first."""
    tiles = [
        MatrixTile(rows, columns, warps, split, ahead)
        for rows in (1, 2, 4)
        for columns in (1, 2, 4, 8)
        for warps in (1, 2, 4)
        for split in (1, 2, 4, 8, 16)
        for ahead in (1, 2, 4)
    ]
    usable = [tile for tile in tiles if _fits(site, tile)]
    return sorted(usable, key=lambda tile: (_cost(site, tile), str(tile)))


def _steps(site: Site) -> int:
    taps = site.input_type(1).elements // (site.output.channels * site.input.channels)
    return taps * site.input.slices // 4


def _fits(site: Site, tile: MatrixTile) -> bool:
    items = WARP * tile.warps * tile.split
    shared = items * tile.rows * tile.columns * 16 if tile.split > 1 else 0
    blocks = -(-site.output.channels // COLUMNS)
    snug = tile.columns * tile.warps < 2 * blocks and (
        tile.rows == 1 or tile.rows * ROWS < site.output.pixels + ROWS
    )
    fits = items <= min(256, site.device.max_work_group) and shared <= site.device.local_memory - 64
    steps = site.input.slices // 4
    whole = steps % tile.ahead == 0 and tile.split * tile.ahead <= steps
    words = tile.ahead * (4 * tile.rows + 2 * tile.columns) + 4 * tile.rows * tile.columns
    return fits and snug and whole and words <= REGISTERS


def _cost(site: Site, tile: MatrixTile) -> float:
    """Warps a unit must run, times what one takes: loads and their latency, then the products."""
    device: DeviceInfo = site.device
    across = -(-site.output.pixels // (ROWS * tile.rows))
    down = -(-site.output.channels // (COLUMNS * tile.columns * tile.warps))
    warps = across * down * tile.warps * tile.split
    busy = -(-warps // device.compute_units)
    steps = -(-_steps(site) // tile.split)
    blocks = tile.rows * tile.columns
    one = steps * (2.0 * tile.rows + tile.columns + 1.5 * blocks)
    # The partners of a split meet in local memory, round after round, with every block they hold.
    share = blocks * (6.0 + 10.0 * math.log2(tile.split)) if tile.split > 1 else 0.0
    alone = steps * 90.0 / tile.ahead + 12.0 * blocks + share
    one += share * 0.2
    return busy * one + alone


def pack_for_warps(weights: np.ndarray) -> np.ndarray:
    """[O, taps, I] -> [block of 8 outputs][tap][step of 16 inputs][work-item][4 inputs]."""
    outputs, taps, inputs = weights.shape
    blocks, steps = -(-outputs // COLUMNS), inputs // DEPTH
    padded = np.zeros((blocks * COLUMNS, taps, inputs), weights.dtype)
    padded[:outputs] = weights
    parts = padded.reshape(blocks, COLUMNS, taps, steps, 4, 4)
    return parts.transpose(0, 2, 3, 1, 4, 5).reshape(-1)


class MatrixConvolution:
    """One convolution being written for matrix units."""

    def __init__(self, site: Site, title: str, weights: np.ndarray, taps: MakeTaps) -> None:
        self.site = site
        tile = MatrixTile.parse(site.choice)
        self.tile = tile if tile is not None and _fits(site, tile) else _tiles(site)[0]
        self.kernel = kernel = site.kernel(f"{title}_matrix")
        self.source, self.target = site.read(kernel, 0), site.write(kernel)
        self.weights = site.weights(kernel, "weights", pack_for_warps(weights))
        bias, padded = site.array(2), np.zeros(site.output.slices * 4, np.float32)
        padded[: site.output.channels] = 0 if bias is None else bias
        self.bias = site.packed(kernel, "bias", padded)
        self.taps = taps(kernel, self.source, self.target)

    def write(self) -> None:
        kernel, tile, output = self.kernel, self.tile, self.site.output
        across = -(-output.pixels // (ROWS * tile.rows))
        self.blocks = -(-output.channels // COLUMNS)
        down = -(-self.blocks // (tile.columns * tile.warps))
        local = (WARP, tile.warps, tile.split)
        x, y, _ = kernel.ids(across * WARP, down * tile.warps, tile.split, local=local, stay=True)
        self.lane = kernel.let(kernel.local_id(0), "lane")
        self.quarter = kernel.let(self.lane % 4, "quarter")
        start = kernel.let(x // WARP * (ROWS * tile.rows) + self.lane // 4, "pixel")
        self.block = kernel.let(y * tile.columns, "block")
        pixels = [start + step * 8 for step in range(2 * tile.rows)]
        sums = [
            [kernel.variable(const(0.0, "float", 4), "sum") for _ in range(tile.columns)]
            for _ in range(tile.rows)
        ]
        self._accumulate(sums, pixels)
        row = self.lane + kernel.local_id(1) * WARP
        every = [value for line in sums for value in line]
        kernel.group_combine(every, tile.split, 2, row, operator.add)
        with kernel.when(kernel.local_id(2).equals(0) if tile.split > 1 else const(True)):
            for number, line in enumerate(sums):
                for column, total in enumerate(line):
                    self._store(total, pixels[2 * number], column)

    def _accumulate(self, sums: list[list[Variable]], pixels: list[Expression]) -> None:
        kernel, taps, tile = self.kernel, self.taps, self.tile
        end = kernel.size("last_pixel", self.site.output.pixels - 1)
        bases = []
        for pixel in pixels:
            known = kernel.let(minimum(pixel, end), "pixel")
            bases.append(tuple(kernel.let(part, "base") for part in taps.start(known)))
        down = kernel.size("filter_rows", taps.count[0])
        across = kernel.size("filter_columns", taps.count[1])
        steps = kernel.size("steps", self.site.input.slices // 4)
        last = kernel.size("last_block", self.blocks - 1)
        columns = [
            kernel.let(minimum(self.block + c, last) * (down * across * steps), "w")
            for c in range(tile.columns)
        ]
        with kernel.loop(down, title="row") as row, kernel.loop(across, title="column") as column:
            places = [taps.find(base, row, column) for base in bases]
            places = [(kernel.let(p, "from"), i and kernel.let(i, "inside")) for p, i in places]
            tap = kernel.let((row * across + column) * steps, "tap")
            first = kernel.local_id(2) * tile.ahead if tile.split > 1 else const(0)
            stride = tile.split * tile.ahead
            with kernel.loop(steps, first, stride, title="step") as step:
                self._steps(sums, places, columns, tap, step)

    def _steps(
        self,
        sums: list[list[Variable]],
        places: list[tuple[Expression, Expression | None]],
        columns: list[Expression],
        tap: Expression,
        step: Expression,
    ) -> None:
        """Read some steps of the reduction, then multiply them."""
        kernel, read = self.kernel, []
        for ahead in range(self.tile.ahead):
            slice_ = kernel.let((step + ahead) * 4 + self.quarter, "slice")
            inputs = [self._input(place, slice_, inside) for place, inside in places]
            at = kernel.let(tap + step + ahead, "k")
            factors = [
                kernel.let(load_raw(self.weights, (start + at) * WARP + self.lane), "f")
                for start in columns
            ]
            read.append((inputs, factors))
        for inputs, factors in read:
            for column, factor in enumerate(factors):
                for number, line in enumerate(sums):
                    upper, lower = inputs[2 * number], inputs[2 * number + 1]
                    kernel.call("matrix_multiply", line[column], upper, lower, factor)

    def _input(
        self, place: Expression, slice_: Expression, inside: Expression | None
    ) -> Expression:
        value = load_raw(self.source.pointer, self.source.index(place, slice_))
        return self.kernel.let(value if inside is None else guarded(inside, value), "a")

    def _store(self, total: Variable, pixel: Expression, column: int) -> None:
        """Neighbours swap halves of their rows, so that each holds four channels of one pixel."""
        kernel = self.kernel
        kernel.preludes.add("swap_neighbours")
        even = kernel.let((self.lane % 2).equals(0), "even")
        given = [kernel.let(where(even, total.lane(2 + n), total.lane(n)), "give") for n in (0, 1)]
        taken = [kernel.let(call("swap_neighbours", value), "take") for value in given]
        upper = vector(total.lane(0), total.lane(1), *taken)
        lower = vector(*taken, total.lane(2), total.lane(3))
        value = kernel.let(where(even, upper, lower), "value")
        target = kernel.let(where(even, pixel, pixel + 8), "to")
        slice_ = kernel.let((self.block + column) * 2 + self.quarter // 2, "slice")
        inside = (target < self.target.pixels) & (slice_ < self.target.slices)
        with kernel.when(inside):
            self.target.store(target, slice_, value + load(self.bias, slice_, "float", 4))

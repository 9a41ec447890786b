"""Convolution on matrix units for many pixels: what a group multiplies is copied ahead.

All warps of a group need the same pixels and the same weights. They are brought to local memory
once, by copies that run while what came before is multiplied; without that each warp reads its own
from the caches, and waits for them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from fourfold.kernel.context import NodeContext
from fourfold.kernel.expression import Expression, Pointer, const, load, minimum
from fourfold.kernel.kernel import Variable
from fourfold.kernel.stage import group_memory
from fourfold.kernel.statement import AwaitCopies, CopyAhead, EndCopies, MatrixMultiply
from fourfold.kernels.matrix.ahead import AheadConvolution, refuses_copies
from fourfold.kernels.matrix.feed import WindowFeed
from fourfold.kernels.matrix.products import Warp
from fourfold.kernels.matrix.tile import COLUMNS, ROWS, WARP, MatrixTile

_TEXT = re.compile(r"(\d+)x(\d+) in (\d+)")
_DOWN, _ACROSS = 2, 4  # warps of a group along the pixels and along the channels
_ITEMS = WARP * _DOWN * _ACROSS
_STEPS = 2  # steps of sixteen inputs that are copied together,
_SLICES = 4 * _STEPS  # and the slices of a pixel that they are
_APART = 4  # elements between the pixels of two slices, which so lie in different banks
_WORDS = 8  # bytes of what is copied at once
_EVERY = [
    (pixels, channels, buffers)
    for pixels, channels in ((128, 128), (128, 64), (64, 128), (64, 64))
    for buffers in (2, 3, 4)
]


class StagedTile(NamedTuple):
    """A group makes so many pixels of so many channels, and has room for some copies of what it
    multiplies: one is multiplied while the others come.
    """

    pixels: int
    channels: int
    buffers: int

    def __str__(self) -> str:
        return f"{self.pixels}x{self.channels} in {self.buffers}"

    @staticmethod
    def parse(text: str | None) -> StagedTile | None:
        match = _TEXT.fullmatch(text or "")
        return None if match is None else StagedTile(*map(int, match.groups()))

    @property
    def pitch(self) -> int:
        """Elements from the pixels of one slice to those of the next."""
        return self.pixels + _APART

    @property
    def inputs(self) -> int:
        """Elements of one copy of the pixels, and of the weights."""
        return _SLICES * self.pitch

    @property
    def weights(self) -> int:
        return self.channels // COLUMNS * _STEPS * WARP

    @property
    def local_bytes(self) -> int:
        return self.buffers * (self.inputs + self.weights) * _WORDS


def staged_choices(context: NodeContext) -> list[str]:
    """Those that fit, the largest first: each number is copied for more products there."""
    room = group_memory(context.device, _ITEMS, asked=True)
    tiles = [StagedTile(*numbers) for numbers in _EVERY]
    return [str(tile) for tile in tiles if tile.local_bytes <= room]


def refuses_staged(context: NodeContext) -> str | None:
    """Why pixels cannot be copied ahead, or None."""
    reason = refuses_copies(context)
    if reason is not None:
        return reason
    if context.input.channels % (4 * _SLICES):
        return f"the channels of its input are no multiple of {4 * _SLICES}"
    fits = context.device.max_work_group >= _ITEMS and staged_choices(context)
    return None if fits else "there is too little local memory"


class StagedConvolution(AheadConvolution):
    """One convolution being written for matrix units, with copies ahead."""

    def __init__(
        self,
        context: NodeContext,
        title: str,
        feed: WindowFeed,
        weights: np.ndarray,
        bias: np.ndarray | None,
    ) -> None:
        super().__init__(context, f"{title}_staged", feed, weights, bias)
        known = staged_choices(context)
        wanted = StagedTile.parse(context.choice if context.choice in known else known[0])
        assert wanted is not None
        self.form, self.window = wanted, feed
        rows, columns = wanted.pixels // (ROWS * _DOWN), wanted.channels // (COLUMNS * _ACROSS)
        self.tile = MatrixTile(rows, columns, _ACROSS, 1)

    def write(self) -> None:
        kernel, form, tile, work = self.kernel, self.form, self.tile, self.feed.work
        across, down = -(-work.pixels // form.pixels), -(-work.channels // form.channels)
        local = (WARP, _ACROSS, _DOWN)
        x, y, _ = kernel.ids(across * WARP, down * _ACROSS, _DOWN, local=local, stay=True)
        lane = kernel.let(kernel.local_id(0), "lane")
        self.group = kernel.let(x // WARP, "group")
        self.below = kernel.let(kernel.local_id(2) * tile.rows, "below")
        self.warp = Warp(
            lane,
            line=kernel.let(lane // 4, "line"),
            quarter=kernel.let(lane % 4, "quarter"),
            first=kernel.let(self.group * (form.pixels // ROWS) + self.below, "first"),
            block=kernel.let(y * tile.columns, "block"),
        )
        within = lane + kernel.local_id(1) * WARP + kernel.local_id(2) * (WARP * _ACROSS)
        self.item = kernel.let(within, "within")
        sums = [
            [kernel.variable(const(0.0, "float", 4), "sum") for _ in range(tile.columns)]
            for _ in range(tile.rows)
        ]
        self._add_to(sums)
        self._store(self._whole(sums))
        kernel.barrier()  # nobody reads any more what the next group copies to

    def _add_to(self, sums: list[list[Variable]]) -> None:
        """One barrier a batch: behind it all copies of the batch are there, and nobody reads the
        one before, in whose place the next one comes.
        """
        kernel, form = self.kernel, self.form
        self.inputs = kernel.local_array("inputs", "uint", 2, form.buffers * form.inputs)
        self.factors = kernel.local_array("factors", "uint", 2, form.buffers * form.weights)
        self._aim()
        kernel.await_inputs()
        batches = kernel.size("batches", self.feed.work.steps // _STEPS)
        for number in map(const, range(form.buffers - 1)):
            with kernel.when(number < batches):
                self._copy(number, number)
            kernel.emit(EndCopies())
        with kernel.loop(batches, title="batch") as batch:
            kernel.emit(AwaitCopies(const(form.buffers - 2)))
            kernel.barrier()
            coming = kernel.let(batch + (form.buffers - 1), "coming")
            with kernel.when(coming < batches):
                self._copy(coming, kernel.let(coming % form.buffers, "to"))
            kernel.emit(EndCopies())
            self._multiply(sums, kernel.let(batch % form.buffers, "at"))

    def _aim(self) -> None:
        """Each work-item copies for one pixel all along."""
        kernel, pixels = self.kernel, self.form.pixels
        self.row = kernel.let(self.item % pixels, "row")
        self.slice = kernel.let(self.item // pixels, "part")
        self._aim_at(self.group * pixels + self.row)

    def _copy_pixels(self, batch: Expression, buffer: Expression) -> None:
        kernel, form = self.kernel, self.form
        in_tap = self.context.input.slices // _SLICES  # batches; written out, for the division
        tap = kernel.let(batch // in_tap, "tap")
        first = kernel.let((batch - tap * in_tap) * _SLICES + self.slice, "slice")
        place, exists = self._under(tap)
        to = kernel.let((buffer * _SLICES + self.slice) * form.pitch + self.row, "put")
        apart = _ITEMS // form.pixels  # slices that a group copies at once
        for number in range(0, _SLICES, apart):
            index = self.window.source.index(place, first + number)
            target = to + number * form.pitch
            self._copy_one(self.inputs, self.window.source.pointer, target, index, exists)

    def _copy_weights(self, batch: Expression, buffer: Expression) -> None:
        kernel, form, steps = self.kernel, self.form, self.feed.work.steps
        blocks = -(-self.context.output.channels // COLUMNS)
        last = kernel.size("last_block", blocks - 1)
        each = _STEPS * WARP  # elements of a block
        for number in range(0, form.weights, _ITEMS):
            piece = kernel.let(self.item + number, "piece")
            local = kernel.let(piece // each, "block")
            group = (self.warp.block // (_ACROSS * self.tile.columns)) * (form.channels // COLUMNS)
            block = minimum(group + local, last)
            index = (block * steps + batch * _STEPS) * WARP + (piece - local * each)
            target = buffer * form.weights + piece
            self._copy_one(self.factors, self.weights[0], target, index, const(True))

    def _copy_one(
        self,
        target: Pointer,
        source: Pointer,
        index: Expression,
        place: Expression,
        inside: Expression,
    ) -> None:
        self.kernel.emit(CopyAhead(target, source, index, place, inside, const(2)))

    def _multiply(self, sums: list[list[Variable]], buffer: Expression) -> None:
        kernel, form, warp = self.kernel, self.form, self.warp
        pixels = kernel.let(
            (buffer * _SLICES + warp.quarter) * form.pitch + self.below * ROWS + warp.line, "pixels"
        )
        mine = kernel.local_id(1) * self.tile.columns
        blocks = kernel.let(buffer * form.weights + mine * (_STEPS * WARP) + warp.lane, "blocks")
        for step in range(_STEPS):
            halves = [
                kernel.let(
                    load(
                        self.inputs, pixels + (step * 4 * form.pitch + row * (ROWS // 2)), "uint", 2
                    ),
                    "a",
                )
                for row in range(2 * self.tile.rows)
            ]
            for column in range(self.tile.columns):
                place = blocks + (column * _STEPS + step) * WARP
                factor = kernel.let(load(self.factors, place, "uint", 2), "f")
                for number, line in enumerate(sums):
                    upper, lower = halves[2 * number], halves[2 * number + 1]
                    kernel.emit(MatrixMultiply(line[column], upper, lower, factor))

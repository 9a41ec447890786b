"""Convolution with warpgroups: four warps together multiply operands in local memory.

Pixels and weights are copied ahead as in `staged`, but no work-item reads them. The matrix units
read local memory directly while the warps start the copies of later batches. Registers hold only
sums.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import Expression, const
from fourfold.codegen.kernel import Variable
from fourfold.codegen.stage import MAX_BYTES_PER_UNIT, group_memory
from fourfold.codegen.statement import (
    AwaitCopies,
    AwaitProducts,
    BeginProducts,
    CopyAhead,
    EndCopies,
    EndProducts,
    ShowCopies,
    WarpgroupMultiply,
)
from fourfold.ops.kernels.matrix.feed import WindowFeed
from fourfold.ops.kernels.matrix.products import Warp
from fourfold.ops.kernels.matrix.staged import PrefetchingConvolution, refuses_copies
from fourfold.ops.kernels.matrix.tile import (
    COLUMNS,
    DEPTH,
    ROWS,
    WARP,
    MatrixTile,
    MatrixWork,
    clocks,
)

_TEXT = re.compile(r"(\d+)x(\d+)x(\d+) in (\d+)")
_WARPS = 4  # warps of a warpgroup
_PIXELS = _WARPS * ROWS  # pixels of a warpgroup
_PIECE = 8  # fp16 values that are contiguous in local memory
_PIECE_BYTES = 16
_UNFINISHED = 2  # buffers of batches that may still be multiplied


class WarpgroupTile(NamedTuple):
    """A group computes `pixels` x `channels` from batches of `inputs` inputs.

    Of its `buffers` buffers, one or two are multiplied while the others are filled.
    """

    pixels: int
    channels: int
    inputs: int
    buffers: int

    def __str__(self) -> str:
        return f"{self.pixels}x{self.channels}x{self.inputs} in {self.buffers}"

    @staticmethod
    def parse(text: str | None) -> WarpgroupTile | None:
        match = _TEXT.fullmatch(text or "")
        return None if match is None else WarpgroupTile(*map(int, match.groups()))

    @property
    def items(self) -> int:
        return self.pixels // _PIXELS * _WARPS * WARP

    @property
    def pieces(self) -> int:
        """Pieces of a pixel, and of a channel, in a batch."""
        return self.inputs // _PIECE

    @property
    def local_bytes(self) -> int:
        return self.buffers * self.pieces * (self.pixels + self.channels) * _PIECE_BYTES

    def clocks(self, work: MatrixWork, units: int) -> float:
        """Estimate the clocks of the busiest unit: batches, start and stores of its groups."""
        groups = -(-work.pixels // self.pixels) * -(-work.channels // self.channels)
        batch, once = _CLOCKS[self[:3]]
        return -(-groups // units) * (work.steps * DEPTH // self.inputs * batch + once)


# Clocks of a batch, and fixed clocks: fitted to the layers of ResNet-50 with 32 pictures on an
# H200, without 5000 clocks per launch. Half of the layers were within 20%, and the first choices
# together took 1.03 times as long as the best ones. The last two rows were not timed.
_CLOCKS = {
    (128, 128, 64): (950, 6000),
    (64, 128, 64): (570, 2750),
    (128, 64, 64): (680, 2450),
    (128, 128, 32): (630, 3850),
    (64, 128, 32): (320, 2400),
    (128, 64, 32): (380, 2200),
}
_MAX_GROUP_CHANNELS = 128  # smaller groups would copy pixels more than once
_TILES = [WarpgroupTile(*sizes, 4) for sizes in _CLOCKS]


def warpgroup_tiles(context: NodeContext, work: MatrixWork) -> list[WarpgroupTile]:
    """Return the tiles that fit, the most promising first."""
    units, wide = context.device.compute_units, min(work.channels, _MAX_GROUP_CHANNELS)
    return sorted(
        _usable(context), key=lambda tile: (tile.channels < wide, tile.clocks(work, units))
    )


def _usable(context: NodeContext) -> list[WarpgroupTile]:
    device, channels = context.device, context.input.channels
    return [
        tile
        for tile in _TILES
        if channels % tile.inputs == 0
        and tile.items <= device.max_work_group
        and tile.local_bytes <= group_memory(device, tile.items, asked=True)
    ]


def warpgroup_choices(context: NodeContext, work: MatrixWork) -> list[str]:
    return [str(tile) for tile in warpgroup_tiles(context, work)]


def refuses_warpgroup(context: NodeContext) -> str | None:
    """Return why warpgroups cannot be used, or None."""
    if not (context.device.warpgroups and context.capabilities.warpgroups):
        return "the device has no warpgroup instructions"
    reason = refuses_copies(context)
    if reason is not None:
        return reason
    fits = _usable(context)
    return (
        None
        if fits
        else "its channels do not fill a batch, or the device has too little local memory"
    )


def suits_warpgroup(context: NodeContext, work: MatrixWork) -> bool:
    """Return True if warpgroups should be used without timing.

    So much memory must be moved that a separate launch costs little, and single warps must be
    slower.
    """
    units = context.device.compute_units
    moved = sum(
        type_.elements * context.options.storage.size for type_ in (context.input, context.output)
    )
    if moved < MAX_BYTES_PER_UNIT * units:
        return False
    best = warpgroup_tiles(context, work)[0]
    return best.clocks(work, units) < clocks(context.device, work)


class WarpgroupConvolution(PrefetchingConvolution):
    """One convolution being written for warpgroups."""

    def __init__(
        self,
        context: NodeContext,
        title: str,
        feed: WindowFeed,
        weights: np.ndarray,
        bias: np.ndarray | None,
    ) -> None:
        tiles = warpgroup_tiles(context, feed.work)
        choice = WarpgroupTile.parse(context.choice)
        self.form = form = choice if choice in tiles else tiles[0]
        super().__init__(context, f"{title}_warpgroup", feed, weights, bias)
        self.window = feed
        self.tile = MatrixTile(1, form.channels // COLUMNS, 1, 1)

    def pack(self, weights: np.ndarray) -> np.ndarray:
        """Pack [O, inputs] as [group's channels][piece of inputs][channel][8 inputs]."""
        outputs, inputs = weights.shape
        channels = self.form.channels
        padded = np.zeros((-(-outputs // channels) * channels, inputs), weights.dtype)
        padded[:outputs] = weights
        parts = padded.reshape(-1, channels, inputs // _PIECE, _PIECE)
        return parts.transpose(0, 2, 1, 3).reshape(-1)

    def write(self) -> None:
        kernel, form, work = self.kernel, self.form, self.feed.work
        across, down = -(-work.pixels // form.pixels), -(-work.channels // form.channels)
        high = form.pixels // _PIXELS  # warpgroups of a group
        local = (WARP, _WARPS, high)
        x, y, _ = kernel.ids(across * WARP, down * _WARPS, high, local=local, stay=True)
        lane = kernel.let(kernel.local_id(0), "lane")
        self.group, self.part = kernel.let(x // WARP, "group"), kernel.let(y // _WARPS, "part")
        self.warpgroup = kernel.local_id(2)
        within = self.warpgroup * _WARPS + kernel.local_id(1)
        self.warp = Warp(
            lane,
            line=kernel.let(lane // 4, "line"),
            quarter=kernel.let(lane % 4, "quarter"),
            first=kernel.let(self.group * (form.pixels // ROWS) + within, "first"),
            block=kernel.let(self.part * self.tile.columns, "block"),
        )
        self.item = kernel.let(lane + within * WARP, "within")
        sums = [kernel.variable(const(0.0, "float", 4), "sum") for _ in range(self.tile.columns)]
        self._add_batches(sums)
        self._store(self._complete_blocks([sums]))
        kernel.barrier()  # Wait until all reads are done: the next group overwrites the buffers.

    def _add_batches(self, sums: list[Variable]) -> None:
        """Add all batches, with one barrier each.

        After the barrier, the copies of the batch are complete, and the buffer of the batch before
        the previous one can be overwritten.
        """
        kernel, form = self.kernel, self.form
        size = form.buffers * form.pieces
        self.factors = kernel.local_array("factors", "uint", 4, size * form.channels)
        self.inputs = kernel.local_array("inputs", "uint", 2, size * form.pixels * 2)
        self._assign_pixels()
        kernel.await_inputs()
        batches = kernel.size("batches", self.feed.work.steps * DEPTH // form.inputs)
        ahead = form.buffers - _UNFINISHED
        for number in map(const, range(ahead)):
            with kernel.when(number < batches):
                self._copy(number, number)
            kernel.emit(EndCopies())
        with kernel.loop(batches, title="batch") as batch:
            kernel.emit(AwaitCopies(const(ahead - 1)))
            kernel.emit(ShowCopies())
            kernel.barrier()
            coming = kernel.let(batch + ahead, "coming")
            with kernel.when(coming < batches):
                self._copy(coming, kernel.let(coming % form.buffers, "to"))
            kernel.emit(EndCopies())
            kernel.emit(BeginProducts())
            self._multiply(sums, kernel.let(batch % form.buffers, "at"))
            kernel.emit(EndProducts())
            kernel.emit(AwaitProducts(const(1)))
        kernel.emit(AwaitProducts(const(0)))

    def _assign_pixels(self) -> None:
        """Assign one of two slices of one pixel to each work-item for all its copies.

        There are twice as many work-items as pixels.
        """
        kernel = self.kernel
        self.row = kernel.let(self.item // 2, "row")
        self.slice = kernel.let(self.item % 2, "slice")
        self._find_window(self.group * self.form.pixels + self.row)

    def _copy_pixels(self, batch: Expression, buffer: Expression) -> None:
        kernel, form = self.kernel, self.form
        # batches; a literal, because it is a divisor
        in_tap = self.context.input.channels // form.inputs
        tap = kernel.let(batch // in_tap, "tap")
        first = kernel.let((batch - tap * in_tap) * (2 * form.pieces) + self.slice, "first")
        pixel, exists = self._find_tap(tap)
        pieces = buffer * form.pieces * form.pixels + self.row
        to = kernel.let(pieces * 2 + self.slice, "put")
        for piece in range(form.pieces):
            index = self.window.source.index(pixel, first + 2 * piece)
            target, source = to + piece * form.pixels * 2, self.window.source.pointer
            kernel.emit(
                CopyAhead(
                    target=self.inputs,
                    source=source,
                    index=target,
                    place=index,
                    inside=exists,
                    words=const(2),
                )
            )

    def _copy_weights(self, batch: Expression, buffer: Expression) -> None:
        """Copy weights, which are packed in the layout of the buffer."""
        kernel, form = self.kernel, self.form
        pieces = form.pieces * form.channels
        every = self.feed.work.steps * DEPTH // _PIECE * form.channels
        index = kernel.let(self.part * every + batch * pieces + self.item, "weights_from")
        to = kernel.let(buffer * pieces + self.item, "weights_to")
        for number in range(0, pieces, form.items):
            copy = CopyAhead(
                target=self.factors,
                source=self.weights[0],
                index=to + number,
                place=index + number,
                inside=const(True),
                words=const(4),
            )
            kernel.emit(copy)

    def _multiply(self, sums: list[Variable], buffer: Expression) -> None:
        kernel, form = self.kernel, self.form
        row = buffer * (form.pieces * form.pixels) + self.warpgroup * _PIXELS
        row = kernel.let(row, "pixels")
        column = kernel.let(buffer * (form.pieces * form.channels), "channels")
        row_pitch, column_pitch = const(form.pixels), const(form.channels)
        for step in range(form.pieces // 2):
            kernel.emit(
                WarpgroupMultiply(
                    rows=self.inputs,
                    columns=self.factors,
                    row=row + 2 * step * form.pixels,
                    column=column + 2 * step * form.channels,
                    row_pitch=row_pitch,
                    column_pitch=column_pitch,
                    targets=tuple(sums),
                )
            )

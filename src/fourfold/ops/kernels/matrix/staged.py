"""Convolution on matrix units for many pixels, with operands copied to local memory ahead.

All warps of a group need the same pixels and weights. They are copied to local memory once, while
the previous batch is multiplied. Otherwise each warp would read its own from the caches and wait.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import Expression, Pointer, const, load, minimum
from fourfold.codegen.kernel import Variable
from fourfold.codegen.location import Layout
from fourfold.codegen.stage import group_memory
from fourfold.codegen.statement import AwaitCopies, CopyAhead, EndCopies, MatrixMultiply
from fourfold.ops.kernels.matrix.convolution import MatrixConvolution
from fourfold.ops.kernels.matrix.feed import WindowFeed, bind_base
from fourfold.ops.kernels.matrix.products import Warp
from fourfold.ops.kernels.matrix.tile import COLUMNS, ROWS, WARP, MatrixTile
from fourfold.types import DType

_TEXT = re.compile(r"(\d+)x(\d+) in (\d+)")
_DOWN, _ACROSS = 2, 4  # warps of a group along the pixels and along the channels
_ITEMS = WARP * _DOWN * _ACROSS
_STEPS = 2  # steps of sixteen inputs per copy
_SLICES = 4 * _STEPS  # slices of a pixel per copy
_SLICE_PADDING = 4  # padding elements between slices, to avoid bank conflicts
_ELEMENT_BYTES = 8  # bytes per copied element
_TILE_SIZES = [
    (pixels, channels, buffers)
    for pixels, channels in ((128, 128), (128, 64), (64, 128), (64, 64))
    for buffers in (2, 3, 4)
]


def refuses_copies(context: NodeContext) -> str | None:
    """Return why pixels cannot be copied in their memory layout, or None."""
    if not context.capabilities.async_copies:
        return f"{context.capabilities.language} has no asynchronous copies"
    source = context.locations[str(context.node.inputs[0])]
    if source.dtype is not DType.F16 or source.layout is not Layout.SLICED:
        return "its input is not stored as fp16 in slices"
    return (
        "its fp32 input is multiplied in two fp16 parts" if context.options.keeps_values else None
    )


class PrefetchingConvolution(MatrixConvolution):
    """A convolution in which each work-item copies the inputs of a fixed pixel."""

    window: WindowFeed

    def _find_window(self, pixel: Expression) -> None:
        """Find where the window of a pixel starts; beyond the end, that of the last pixel."""
        kernel = self.kernel
        last = kernel.size("last_pixel", self.feed.work.pixels - 1)
        pixel = kernel.let(minimum(pixel, last), "pixel")
        self.base = bind_base(kernel, self.window.taps, pixel)

    def _copy(self, batch: Expression, buffer: Expression) -> None:
        """Copy the pixels and weights of a batch to one of the buffers."""
        self._copy_pixels(batch, buffer)
        self._copy_weights(batch, buffer)

    def _copy_pixels(self, batch: Expression, buffer: Expression) -> None:
        raise NotImplementedError

    def _copy_weights(self, batch: Expression, buffer: Expression) -> None:
        raise NotImplementedError

    def _find_tap(self, tap: Expression) -> tuple[Expression, Expression]:
        """Return the input pixel under a tap of the window, and whether it exists."""
        kernel, taps = self.kernel, self.window.taps
        row = kernel.let(tap // taps.count[1], "down")
        column = kernel.let(tap - row * taps.count[1], "across")
        pixel, inside = taps.find(self.base, row, column)
        pixel = kernel.let(pixel, "from")
        return pixel, const(True) if inside is None else kernel.let(inside, "inside")


class StagedTile(NamedTuple):
    """A group computes `pixels` x `channels` and has `buffers` buffers.

    One buffer is multiplied while the others are filled.
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
        return self.pixels + _SLICE_PADDING

    @property
    def inputs(self) -> int:
        """Elements of one copy of the pixels."""
        return _SLICES * self.pitch

    @property
    def weights(self) -> int:
        """Elements of one copy of the weights."""
        return self.channels // COLUMNS * _STEPS * WARP

    @property
    def local_bytes(self) -> int:
        return self.buffers * (self.inputs + self.weights) * _ELEMENT_BYTES


def staged_choices(context: NodeContext) -> list[str]:
    """Return the tiles that fit, the largest first because it reuses each copy most."""
    available_bytes = group_memory(context.device, _ITEMS, asked=True)
    tiles = [StagedTile(*numbers) for numbers in _TILE_SIZES]
    return [str(tile) for tile in tiles if tile.local_bytes <= available_bytes]


def refuses_staged(context: NodeContext) -> str | None:
    """Return why pixels cannot be copied ahead, or None."""
    reason = refuses_copies(context)
    if reason is not None:
        return reason
    if context.input.channels % (4 * _SLICES):
        return f"its input channels are not a multiple of {4 * _SLICES}"
    fits = context.device.max_work_group >= _ITEMS and staged_choices(context)
    return None if fits else "the device has too little local memory or too small work-groups"


class StagedConvolution(PrefetchingConvolution):
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
        choices = staged_choices(context)
        form = StagedTile.parse(context.choice if context.choice in choices else choices[0])
        assert form is not None
        self.form, self.window = form, feed
        rows, columns = form.pixels // (ROWS * _DOWN), form.channels // (COLUMNS * _ACROSS)
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
        self._add_batches(sums)
        self._store(self._complete_blocks(sums))
        kernel.barrier()  # Wait until all reads are done: the next group overwrites the buffers.

    def _add_batches(self, sums: list[list[Variable]]) -> None:
        """Add all batches, with one barrier each.

        After the barrier, the copies of the batch are complete and the previous buffer can be
        overwritten.
        """
        kernel, form = self.kernel, self.form
        self.inputs = kernel.local_array("inputs", "uint", 2, form.buffers * form.inputs)
        self.factors = kernel.local_array("factors", "uint", 2, form.buffers * form.weights)
        self._assign_pixels()
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

    def _assign_pixels(self) -> None:
        """Assign one pixel to each work-item for all its copies."""
        kernel, pixels = self.kernel, self.form.pixels
        self.row = kernel.let(self.item % pixels, "row")
        self.slice = kernel.let(self.item // pixels, "part")
        self._find_window(self.group * pixels + self.row)

    def _copy_pixels(self, batch: Expression, buffer: Expression) -> None:
        kernel, form = self.kernel, self.form
        in_tap = self.context.input.slices // _SLICES  # batches; a literal, because it is a divisor
        tap = kernel.let(batch // in_tap, "tap")
        first = kernel.let((batch - tap * in_tap) * _SLICES + self.slice, "slice")
        pixel, exists = self._find_tap(tap)
        to = kernel.let((buffer * _SLICES + self.slice) * form.pitch + self.row, "put")
        apart = _ITEMS // form.pixels  # slices that a group copies at once
        for number in range(0, _SLICES, apart):
            index = self.window.source.index(pixel, first + number)
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
        source_index: Expression,
        inside: Expression,
    ) -> None:
        self.kernel.emit(CopyAhead(target, source, index, source_index, inside, const(2)))

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
                index = blocks + (column * _STEPS + step) * WARP
                factor = kernel.let(load(self.factors, index, "uint", 2), "f")
                for number, line in enumerate(sums):
                    upper, lower = halves[2 * number], halves[2 * number + 1]
                    kernel.emit(MatrixMultiply(line[column], upper, lower, factor))

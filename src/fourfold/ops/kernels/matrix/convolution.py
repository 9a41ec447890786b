"""Convolution on matrix units: a warp multiplies 16 pixels by 8 channels, 16 inputs at a time.

The order of the inputs within a step is free as long as both factors agree. So each work-item reads
the four fp16 values of one slice in their memory layout, and the weights are packed in the order in
which work-items read them. This needs no local memory and no shuffles, and every read is a full
word.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import reduce

import numpy as np

from fourfold.codegen.combine import exchanged
from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import (
    Expression,
    Pointer,
    const,
    load,
    minimum,
    vector,
    where,
)
from fourfold.codegen.kernel import Variable
from fourfold.ops.kernels.matrix.feed import Feed
from fourfold.ops.kernels.matrix.products import Products, Warp
from fourfold.ops.kernels.matrix.tile import (
    COLUMNS,
    ROWS,
    WARP,
    MatrixTile,
    MatrixWork,
    matrix_tile_fits,
    pack_for_warps,
    ranked_tiles,
    split_weights,
)


def refuses_matrix_units(context: NodeContext) -> str | None:
    """Return why a node cannot use matrix units, or None."""
    if not context.device.matrix_units:
        return "the device has no matrix units"
    if context.options.precision != "mixed":
        return "matrix units need mixed precision"
    return None if context.output.pixels > 1 else "there are too few pixels for a block"


def matrix_choices(context: NodeContext, work: MatrixWork) -> list[str]:
    return [str(tile) for tile in ranked_tiles(context.device, work)]


@dataclass(frozen=True)
class _Block:
    """The sums of 16 pixels x 8 channels, and the block's row and column within a warp."""

    total: Expression
    row: Expression
    column: Expression


class MatrixConvolution:
    """One convolution being written for matrix units."""

    def __init__(
        self,
        context: NodeContext,
        title: str,
        feed: Feed,
        weights: np.ndarray,
        bias: np.ndarray | None,
    ) -> None:
        """`weights` is [outputs, inputs], in the order in which the feed reads."""
        self.context, self.feed = context, feed
        tile = MatrixTile.parse(context.choice)
        usable = tile is not None and matrix_tile_fits(context.device, feed.work, tile)
        self.tile = (
            tile if tile is not None and usable else ranked_tiles(context.device, feed.work)[0]
        )
        self.kernel = kernel = context.kernel(f"{title}_matrix")
        self.target = context.write(kernel)
        self.target.fixed = True
        feed.start(kernel, self.target)
        parts = split_weights(weights, 1 + feed.work.fine)
        self.weights = [context.packed(kernel, "weights", self.pack(part)) for part in parts]
        padded = np.zeros(context.output.slices * 4, np.float32)
        padded[: context.output.channels] = 0 if bias is None else bias
        self.bias = context.packed(kernel, "bias", padded)

    def pack(self, weights: np.ndarray) -> np.ndarray:
        """Return the weights in the order in which they are read."""
        return pack_for_warps(weights)

    def write(self) -> None:
        kernel, tile, output = self.kernel, self.tile, self.context.output
        across = -(-self.feed.work.pixels // (ROWS * tile.rows))
        blocks = -(-output.channels // COLUMNS)
        down = -(-blocks // (tile.columns * tile.warps))
        local = (WARP, tile.warps, tile.split)
        x, y, _ = kernel.ids(across * WARP, down * tile.warps, tile.split, local=local, stay=True)
        lane = kernel.let(kernel.local_id(0), "lane")
        self.warp = warp = Warp(
            lane,
            line=kernel.let(lane // 4, "line"),
            quarter=kernel.let(lane % 4, "quarter"),
            first=kernel.let(x // WARP * tile.rows, "first"),
            block=kernel.let(y * tile.columns, "block"),
        )
        sums = [
            [kernel.variable(const(0.0, "float", 4), "sum") for _ in range(tile.columns)]
            for _ in range(tile.rows)
        ]
        streams = self.context.options.streams
        Products(kernel, tile, self.feed, self.weights, blocks, warp, streams).add_to(sums)
        self._store(self._complete_blocks(sums))

    def _complete_blocks(self, sums: list[list[Variable]]) -> list[_Block]:
        """Return the complete blocks of this work-item.

        Work-items that share a reduction exchange their sums; each completes some of the blocks.
        """
        kernel, tile, split = self.kernel, self.tile, self.tile.split
        every = [
            _Block(total, const(number), const(column))
            for number, line in enumerate(sums)
            for column, total in enumerate(line)
        ]
        if split == 1:
            return every
        items = WARP * tile.warps
        shared = kernel.local_array("shared", "float", 4, len(every) * split * items)
        item = kernel.let(self.warp.lane + kernel.local_id(1) * WARP, "within")
        mine = kernel.let(kernel.local_id(2) * items + item, "mine")
        for number, block in enumerate(every):
            kernel.store(shared, mine + number * split * items, block.total)
        kernel.barrier()
        return [self._complete_block(shared, item, start) for start in range(0, len(every), split)]

    def _complete_block(self, shared: Pointer, item: Expression, start: int) -> _Block:
        """Complete the block that this work-item takes among `split` from `start` on."""
        kernel, tile = self.kernel, self.tile
        items, last = WARP * tile.warps, tile.blocks - 1
        number = kernel.let(minimum(kernel.local_id(2) + start, last), "number")
        index = kernel.let(number * (tile.split * items) + item, "place")
        parts = [load(shared, index + part * items, "float", 4) for part in range(tile.split)]
        row, column = number // tile.columns, number % tile.columns
        return _Block(kernel.let(reduce(operator.add, parts), "whole"), row, column)

    def _store(self, blocks: list[_Block]) -> None:
        """Read all operands of the tails first, then store the blocks."""
        kernel, target = self.kernel, self.target
        ready = []
        for block in blocks:
            pixel, slice_, value = self._arrange_channels(block)
            inside = (pixel < target.pixels) & (slice_ < target.slices)
            pixel_in = kernel.let(minimum(pixel, target.pixels - 1), "pixel")
            slice_in = kernel.let(minimum(slice_, target.slices - 1), "slice")
            biased = value + load(self.bias, slice_in, "float", 4)
            result = kernel.let(target.finished(pixel_in, slice_in, biased), "result")
            ready.append((pixel, slice_, result, kernel.let(inside, "inside")))
        for pixel, slice_, result, inside in ready:
            with kernel.when(inside):
                target.put(pixel, slice_, result)
        if self.tile.split > 1:
            kernel.barrier()

    def _arrange_channels(self, block: _Block) -> tuple[Expression, Expression, Expression]:
        """Exchange values between neighbors so that each holds four channels of one pixel."""
        kernel, total = self.kernel, block.total
        even = kernel.let((self.warp.lane % 2).equals(0), "even")
        sent = [kernel.let(where(even, total.lane(2 + n), total.lane(n)), "give") for n in (0, 1)]
        received = [kernel.let(exchanged(value, 1), "take") for value in sent]
        upper = vector(total.lane(0), total.lane(1), *received)
        lower = vector(*received, total.lane(2), total.lane(3))
        value = kernel.let(where(even, upper, lower), "value")
        pixels = self.feed.rows.pixels(kernel, self.warp.first + block.row, self.warp.line)
        target = kernel.let(where(even, *pixels), "to")
        slice_ = (self.warp.block + block.column) * 2 + self.warp.quarter // 2
        return target, kernel.let(slice_, "slice"), value

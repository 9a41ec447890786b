"""A depthwise filter fused in front of matrix units: its result never goes through memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fourfold.kernel.context import NodeContext
from fourfold.kernel.expression import Expression, const, load, vector, where
from fourfold.kernel.intrinsics import pack_halves
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.statement import DiagonalMultiply
from fourfold.kernel.view import View
from fourfold.kernels.conv.taps import window_taps
from fourfold.kernels.matrix.feed import split_halves, weight_parts
from fourfold.kernels.matrix.rows import InPairs, Rows
from fourfold.kernels.matrix.tile import MatrixWork, split_weights
from fourfold.kernels.matrix.window_reads import Spot, make_window_reader, pair_columns
from fourfold.op.window import Window
from fourfold.types import TensorType

NOTHING = const(0, "uint")


class DepthwiseFeed:
    """Computes a depthwise filter with matrix units, as the input of a matrix product.

    Two filter taps form a matrix with their weights on two diagonals, eight channels at a time. The
    result is in the registers where the next product needs it. A work-item has neighboring pixels,
    so inputs that both need are read once.
    """

    def __init__(
        self,
        context: NodeContext,
        window: Window,
        filters: tuple[np.ndarray, np.ndarray],
        finish: Callable[[Expression], Expression],
    ) -> None:
        """`filters` is [taps, channels] and an offset per channel; `finish` is applied last."""
        self.context, self.window, self.finish = context, window, finish
        self.wide = context.options.keeps_values
        parts = split_weights(filters[0], weight_parts(context, 1))
        self.filters, self.bias = [pack_diagonals(part) for part in parts], filters[1]
        self.rows: Rows = InPairs(context.output.shape)
        work = filter_work(context.input.slices // 4, context.output, window, self.wide)
        reads = 1 + _words(work.sums) * len(parts)
        self.work = replace(work, filters=reads, fine=weight_parts(context, 2) > 1)

    def start(self, kernel: Kernel, target: View) -> None:
        self.kernel, self.source = kernel, self.context.read(kernel, 0)
        self.source.fixed = True
        self.factors = [self.context.packed(kernel, "filters", part) for part in self.filters]
        self.offsets = self.context.packed(kernel, "offsets", self.bias)
        taps = window_taps(self.window)(kernel, self.source, target)
        odd = self.context.output.shape[2] % 2 == 1
        self.under = make_window_reader(self.source, taps, self.window, odd, self.wide)

    def aim(self, pixels: list[Expression], lane: Expression) -> None:
        kernel = self.kernel
        line = kernel.let(lane // 4, "line")
        self.under.aim(pixels, line)
        # A work-item holds a weight of the diagonal in one half of a word, or none at all.
        self.odd = kernel.let(line % 2, "odd")
        mine = kernel.let((lane % 4).equals(line // 2), "mine")
        self.pick = [
            kernel.let(where(mine, where(self.odd.equals(1), odd, even), 0x4444), "pick")
            for even, odd in ((0x4410, 0x1044), (0x4432, 0x3244))
        ]

    def constants(self, step: Expression, quarter: Expression) -> list[Expression]:
        kernel = self.kernel
        slice_ = kernel.let(step * 4 + quarter, "slice")
        offset = kernel.let(load(self.offsets, slice_, "float", 4), "offset")
        reads = _words(self.work.sums)
        start = kernel.let((slice_ * 2 + self.odd) * reads, "w")
        words = [load(part, start + n, "int", 4) for part in self.factors for n in range(reads)]
        return [offset, *(kernel.let(word, "d") for word in words)]

    def inputs(self, step: Expression, quarter: Expression) -> list[Expression]:
        return self.under.read(self.kernel.let(step * 4 + quarter, "slice"))

    def combine(
        self, constants: list[Expression], inputs: list[Expression]
    ) -> list[list[Expression]]:
        (offset, *words), reads = constants, _words(self.work.sums)
        factors = [
            [words[part * reads + tap // 4].lane(tap % 4) for tap in range(self.work.sums)]
            for part in range(len(self.factors))
        ]
        pixel_parts = [
            self._parts(value)
            for spots in self.under.spots(inputs)
            for value in self._filtered(spots, factors, offset)
        ]
        return [list(part) for part in zip(*pixel_parts, strict=True)]

    def _parts(self, value: Expression) -> list[Expression]:
        """Pack four floats as fp16, with the rounding error as a second part if values are fp32."""
        if self.wide:
            return split_halves(self.kernel, self.kernel.let(value, "x"))
        return [self.kernel.let(pack_halves(value), "a")]

    def _filtered(
        self,
        read: dict[Spot, Expression],
        factors: list[list[Expression]],
        offset: Expression,
    ) -> list[Expression]:
        """Return the filter's result for the upper and the lower pixels of one block.

        Pairs of taps alternate between two sets of sums, because a sum waits for the previous one.
        """
        kernel = self.kernel
        both = [offset.part(half, 2) for half in (0, 1)]
        sums = [
            [kernel.variable(vector(part, part), "sum") for part in both],
            [kernel.variable(const(0.0, "float", 4), "sum") for _ in both],
        ]
        halves = {spot: self._halves(value) for spot, value in read.items()}
        (down, across), gap, stride = (
            self.window.filter,
            self.window.dilation[1],
            self.window.stride[1],
        )
        taps = [(row, tap * gap) for row in range(down) for tap in range(across)]
        for number in range(0, len(taps), 2):
            # The product of both rounding errors is too small to matter.
            for part, weight in self._products():
                words = [
                    halves[row, column + move][part]
                    for row, column in taps[number : number + 2]
                    for move in (0, stride)
                ]
                weights = factors[weight][number : number + 2]
                for half, total in enumerate(sums[number // 2 % 2]):
                    taken = [word.lane(half) for word in words] + [NOTHING] * (4 - len(words))
                    taken += [*weights, *[const(0)] * (2 - len(weights)), self.pick[half]]
                    kernel.emit(DiagonalMultiply(total, *taken))
        totals = [kernel.let(a + b, "total") for a, b in zip(*sums, strict=True)]
        results = [vector(*(total.part(row, 2) for total in totals)) for row in (0, 1)]
        return [self.finish(result) for result in results]

    def _products(self) -> list[tuple[int, int]]:
        """Return which parts of values and weights are multiplied."""
        values = [(0, 0), (1, 0)] if self.wide else [(0, 0)]
        return [*values, *((0, part) for part in range(1, len(self.factors)))]

    def _halves(self, value: Expression) -> list[Expression]:
        """Return a pixel as fp16, with its rounding error as a second part if values are fp32."""
        return split_halves(self.kernel, value) if self.wide else [value]


def filter_work(steps: int, output: TensorType, window: Window, wide: bool) -> MatrixWork:
    """Return the work of a matrix product with a depthwise filter in front of it."""
    taps = window.filter[0] * window.filter[1]
    return MatrixWork(
        pixels=InPairs(output.shape).count,
        channels=output.channels,
        steps=steps,
        reads=window.filter[0] * len(pair_columns(window)),
        sums=taps,
        filters=1 + _words(taps),
        wide=wide,
    )


def _words(taps: int) -> int:
    """Return the reads of four words that the weights of `taps` taps need."""
    return -(-taps // 4)


def pack_diagonals(filters: np.ndarray) -> np.ndarray:
    """Pack [taps, channels] as [slice][2][taps, in fours] words with weights of channels two
    apart.
    """
    taps, channels = filters.shape
    padded = np.zeros((-(-taps // 4) * 4, -(-channels // 16) * 16), np.float16)
    padded[:taps, :channels] = filters
    parts = padded.reshape(padded.shape[0], -1, 2, 2)  # tap, slice, half, odd
    return np.ascontiguousarray(parts.transpose(1, 3, 0, 2)).reshape(-1).view(np.int32)

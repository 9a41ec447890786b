"""The depthwise convolution of bytes: four neighboring pixels by four weights at once.

A work-item copies the rows that it reads, zero-padded, to a contiguous array. Each step adds to
eight sums: four channels of two neighboring pixels.
"""

from __future__ import annotations

import numpy as np

from fourfold.codegen.byte_io import RUN, store_four
from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import Expression, const, convert, load, minimum, vector, where
from fourfold.codegen.intrinsics import load_taps
from fourfold.codegen.kernel import Variable
from fourfold.codegen.statement import DotAccumulate
from fourfold.ops.base.window import Window
from fourfold.ops.kernels.depthwise.rows import padded_bias
from fourfold.ops.kernels.quantized.convolution import (
    is_in_words,
    read_words,
    refuses_dots,
    repeat_byte,
)
from fourfold.types import DType

TAPS = 4  # multiplied at once
MAX_ROWS = 6  # output rows per work-item; each pair of rows takes four of twelve sums
MAX_COPIED_WORDS = 1 << 12  # words that a work-item copies
MAX_UNROLLED_TAPS = 49


def refuses_dot_rows(context: NodeContext, window: Window) -> str | None:
    """Return why this kernel cannot be used, or None.

    The windows of four neighbors must be within a few words, and results must be bytes.
    """
    if not context.counts_bytes:
        return "the device has no byte dot products, or the result is not stored as bytes"
    if window.dilation[1] != 1 or window.filter[0] * window.filter[1] > MAX_UNROLLED_TAPS:
        return "the taps are too far apart, or too many"
    if context.output.shape[2] < RUN:
        return f"the output has fewer than {RUN} columns"
    if _line(context, window) * window.reach[0] > MAX_COPIED_WORDS:
        return "the rows are too long to copy"
    return refuses_dots(context) or (
        None if is_in_words(context) else "the input is not stored in slices"
    )


def _line(context: NodeContext, window: Window) -> int:
    """Return the words of a copied row: the image, its padding, and words read beyond the end."""
    return context.input.shape[2] + sum(window.padding.width) + 2 * TAPS * window.stride[1]


def dot_row_choices(context: NodeContext, window: Window) -> list[str]:
    """Return how many output rows a work-item may compute, the most promising first."""
    height = context.output.shape[1]

    def cost(rows: int) -> float:
        read = (rows - 1) * window.stride[0] + window.reach[0]
        return -(-height // rows) * (read + 3.0 * rows)

    fits = [
        rows
        for rows in range(1, min(MAX_ROWS, height) + 1)
        if _line(context, window) * ((rows - 1) * window.stride[0] + window.reach[0])
        <= MAX_COPIED_WORDS
    ]
    return [f"{rows} rows" for rows in sorted(fits, key=cost)]


def pack_taps(weights: np.ndarray) -> np.ndarray:
    """Pack [1,H,W,C] as [slice][part][row][group of four taps][channel], in words of four taps.

    A weight that needs nine bits is the sum of two parts.
    """
    _, rows, columns, channels = weights.shape
    near = np.clip(weights[0], -128, 127)
    parts = [near] if np.array_equal(near, weights[0]) else [near, weights[0] - near]
    groups, slices = -(-columns // TAPS), -(-channels // 4)
    padded = np.zeros((len(parts), rows, groups * TAPS, slices * 4), np.int8)
    padded[:, :, :columns, :channels] = np.stack(parts)
    split = padded.reshape(len(parts), rows, groups, TAPS, slices, 4)
    packed = np.ascontiguousarray(split.transpose(4, 0, 1, 2, 5, 3))
    return packed.view(np.int32).reshape(slices, len(parts), rows, groups, 4)


class DotDepthwise:
    """Several output rows per work-item, four neighboring columns at a time."""

    def __init__(self, context: NodeContext, window: Window) -> None:
        self.context, self.window = context, window
        weights = context.array(1)
        assert weights is not None
        self.kernel = kernel = context.kernel("depthwise_dots")
        self.source, self.target = read_words(context, kernel), context.write(kernel, counted=True)
        self.zero = self.source.location.zero_point
        packed = pack_taps(weights)
        self.parts, self.groups = packed.shape[1], packed.shape[3]
        self.weights = context.packed(kernel, "weights", packed)
        bias = padded_bias(context).astype(np.int64)
        sums = weights.sum(axis=(0, 1, 2), dtype=np.float64).astype(np.int64)
        bias[: sums.size] -= self.zero * sums
        self.bias = context.packed(kernel, "bias", bias.astype(np.int32))
        choices = dot_row_choices(context, window)
        choice = context.choice if context.choice in choices else choices[0]
        self.rows = int(str(choice).split()[0])
        self.reach = (self.rows - 1) * window.stride[0] + window.reach[0]

    def write(self) -> None:
        kernel, context = self.kernel, self.context
        batch, height, width, _ = context.output.shape
        tiles = -(-height // self.rows)
        _, y, self.slice = kernel.ids(1, tiles * batch, context.output.slices)
        count = kernel.size("tiles", tiles)
        self.image = kernel.let(y // count if batch > 1 else const(0), "image")
        top = (y % count if batch > 1 else y) * self.rows
        if height % self.rows:
            top = minimum(top, kernel.size("last_tile", height - self.rows))
        self.top = kernel.let(top, "top")
        self._copy()
        taps = self.window.filter[0] * self.groups * self.parts
        first = kernel.let(self.slice * taps, "w")
        factors = [kernel.let(load(self.weights, first + tap, "int", 4)) for tap in range(taps)]
        self.factors = [kernel.let(vector(one, one), "f") for one in factors]
        offset = kernel.let(load(self.bias, self.slice, "int", 4), "offset")
        self.offset = kernel.let(vector(offset, offset), "offset")
        with kernel.loop(kernel.size("width", width), 0, RUN, title="x") as x:
            if width % RUN:
                x = kernel.let(minimum(x, kernel.size("last_column", width - RUN)), "x_in")
            self._columns(x)

    def _copy(self) -> None:
        """Copy the rows under this tile, with the zero point outside the image."""
        kernel, window, source = self.kernel, self.window, self.source
        length, left = _line(self.context, window), window.padding.left
        self.length = kernel.size("line", length)
        size = 1 << (length * self.reach - 1).bit_length()
        self.lines = kernel.private_array("lines", DType.I32, size)
        zero = kernel.size("zeros", repeat_byte(self.zero))
        with kernel.loop(self.reach, title="row") as row:
            y = kernel.let(self.top * window.stride[0] + row - window.padding.top, "y")
            inside = kernel.let((y >= 0) & (y < source.axis(1)), "inside")
            to = kernel.let(row * self.length, "to")
            for number in range(left):
                kernel.store(self.lines, to + number, zero)
            start = (self.image * source.axis(1) + where(inside, y, 0)) * source.axis(2)
            near = kernel.shifted(source.pointer, self.slice * source.pitch + start, 1, "near")
            with kernel.loop(source.axis(2), title="column") as column:
                word = where(inside, load(near, column, "int"), zero)
                kernel.store(self.lines, to + (column + left), word)
            with kernel.loop(self.length, source.axis(2) + left, title="column") as column:
                kernel.store(self.lines, to + column, zero)

    def _columns(self, x: Expression) -> None:
        """Compute all rows of four neighboring output columns."""
        kernel, window, target = self.kernel, self.window, self.target
        stride = window.stride[1]
        left = kernel.let(x * stride, "left")
        totals = [[kernel.variable(self.offset, "sum") for _ in (0, 1)] for _ in range(self.rows)]
        for line in range(self.reach):
            users = list(self._users(line))
            for pair in (0, 1) if users else ():
                for group in range(self.groups):
                    at = self.length * line + left + (2 * pair * stride + group * TAPS)
                    values = kernel.let(load_taps(self.lines, at, stride), "found")
                    for row, tap in users:
                        self._add(totals[row][pair], values, tap, group)
        for row, sums in enumerate(totals):
            pixel = kernel.let(target.pixel([self.image, self.top + row, x]), "to")
            store_four(target, pixel, self.slice, *(convert(one, kernel.real) for one in sums))

    def _users(self, line: int) -> list[tuple[int, int]]:
        """Return the output rows that use an input row, each with the row of the filter."""
        window, users = self.window, []
        for row in range(self.rows):
            tap, remainder = divmod(line - row * window.stride[0], window.dilation[0])
            if remainder == 0 and 0 <= tap < window.filter[0]:
                users.append((row, tap))
        return users

    def _add(self, total: Variable, values: Expression, tap: int, group: int) -> None:
        rows = self.window.filter[0]
        for part in range(self.parts):
            factor = self.factors[(part * rows + tap) * self.groups + group]
            self.kernel.emit(DotAccumulate(total, values, factor))

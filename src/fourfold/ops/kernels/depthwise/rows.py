"""Kernels of the depthwise convolution, four channels at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import Expression, const, load, minimum, vector, where
from fourfold.codegen.kernel import Variable
from fourfold.codegen.location import slice_channels
from fourfold.codegen.view import View
from fourfold.ops.base.window import Window
from fourfold.ops.kernels.grid import plain_grid
from fourfold.plan.layout import Arranged

MAX_UNROLLED_TAPS = 25
GPU_WARP = 32
MAX_FOUR_ROW_TAPS = 9  # with more, emulated GPUs take too long to compile four rows
COMMON_GROUP_COLUMNS = 8  # for any row length, where few kernels should be compiled
L1_ROW_BYTES = 24 << 10  # of the L1 cache that is left for rows


def pack_filters(weights: np.ndarray) -> Arranged:
    """Pack [1,H,W,C] as [slice][tap][4], with zeros in the lanes beyond the last channel."""
    return slice_channels(weights.reshape(-1, weights.shape[-1]))


def depthwise_plain(context: NodeContext, window: Window, multiplier: int) -> None:
    """Write a kernel with one output pixel and slice per work-item and loops over the window.

    It supports any filter and any multiplier.
    """
    weights = context.array(1)
    assert weights is not None
    kernel = context.kernel("depthwise_plain")
    source, target = context.read(kernel, 0), context.write(kernel)
    filters = context.weights(kernel, "weights", pack_filters(weights))
    bias = context.packed(kernel, "bias", padded_bias(context))
    rows = kernel.size("filter_rows", window.filter[0])
    columns = kernel.size("filter_columns", window.filter[1])
    for pixel, slice_ in plain_grid(kernel, context.device, target):
        image, y, x = target.coordinates(pixel)
        top = kernel.let(y * window.stride[0] - window.padding.top, "top")
        left = kernel.let(x * window.stride[1] - window.padding.left, "left")
        total = kernel.variable(load(bias, slice_, kernel.real, 4), "total")
        with kernel.loop(rows, title="row") as row, kernel.loop(columns, title="column") as column:
            at_y = kernel.let(top + row * window.dilation[0], "y")
            at_x = kernel.let(left + column * window.dilation[1], "x")
            inside = (at_y >= 0) & (at_y < source.axis(1)) & (at_x >= 0) & (at_x < source.axis(2))
            with kernel.when(inside):
                source_pixel = kernel.let(source.pixel([image, at_y, at_x]), "from")
                factor = load(filters, (slice_ * rows + row) * columns + column, kernel.real, 4)
                kernel.add(total, _channels(source, source_pixel, slice_, multiplier) * factor)
        target.store(pixel, slice_, total)


def _channels(source: View, pixel: Expression, slice_: Expression, multiplier: int) -> Expression:
    """Load the inputs of four neighboring outputs. With a multiplier, several share one input."""
    if multiplier == 1:
        return source.load(pixel, slice_)
    last = source.channels - 1
    lanes = [
        source.element(pixel, minimum((slice_ * 4 + lane) // multiplier, last)) for lane in range(4)
    ]
    return source.kernel.let(vector(*lanes), "v")


def padded_bias(context: NodeContext) -> np.ndarray:
    bias = context.array(2)
    padded = np.zeros(context.output.slices * 4, np.float32)
    padded[: context.output.channels] = 0 if bias is None else bias
    return padded


@dataclass(frozen=True)
class _Row:
    """An input row under a tile: where it starts, and whether it exists (None: always)."""

    start: Expression
    inside: Expression | None


class DepthwiseRows:
    """Several output rows of one column per work-item; each input row is read once for all."""

    def __init__(self, context: NodeContext, window: Window) -> None:
        self.context, self.window = context, window
        weights = context.array(1)
        assert weights is not None
        self.kernel = kernel = context.kernel("depthwise_rows")
        self.source, self.target = context.read(kernel, 0), context.write(kernel)
        self.filters = context.weights(kernel, "weights", pack_filters(weights))
        self.bias = context.packed(kernel, "bias", padded_bias(context))
        self.rows = _chosen_rows(context, window)
        self.reach = (self.rows - 1) * window.stride[0] + window.reach[0]

    def write(self) -> None:
        kernel = self.kernel
        batch, height, _, _ = self.context.output.shape
        tiles = -(-height // self.rows)
        x, y, z = self._ids(tiles * batch)
        image = y // kernel.size("tiles", tiles) if batch > 1 else const(0)
        top = y % kernel.size("tiles", tiles) if batch > 1 else y
        top = top * self.rows
        few = self.context.capabilities.few_kernels
        if few or height % self.rows:
            top = minimum(top, kernel.size("last_tile", height - self.rows, always=few))
        self.top = kernel.let(top, "top")
        self.slice, self.image = z, kernel.let(image, "image")
        taps = self.window.filter[0] * self.window.filter[1]
        self.weights_at = kernel.let(z * taps, "w")
        self.factors = [
            kernel.let(load(self.filters, self.weights_at + tap, kernel.real, 4), "f")
            for tap in range(taps)
        ]
        self.offset = kernel.let(load(self.bias, z, kernel.real, 4), "offset")
        self.lines = [self._line(number) for number in range(self.reach)]
        self._compute(x)

    def _ids(self, tiles: int) -> tuple[Expression, Expression, Expression]:
        """Return x, y and slice: a warp takes a row, or several slices of a short row.

        Work-items beyond the end repeat the last result, so that all stay in lockstep.
        """
        kernel, width, slices = (
            self.kernel,
            self.context.output.shape[2],
            self.context.output.slices,
        )
        few = self.context.capabilities.few_kernels
        wide = COMMON_GROUP_COLUMNS if few else min(GPU_WARP, 1 << (width - 1).bit_length())
        deep = 1 if self.context.target.emulated else GPU_WARP // wide
        x, y, z = kernel.ids(width, tiles, slices, local=(wide, 1, deep), stay=True)
        if few or kernel.grid[0] != width:
            last = kernel.size("last_column", width - 1, always=few)
            x = kernel.let(minimum(x, last), "x_in")
        if few or kernel.grid[2] != slices:
            last = kernel.size("last_slice", slices - 1, always=few)
            z = kernel.let(minimum(z, last), "z_in")
        return x, y, z

    def _compute(self, x: Expression) -> None:
        self.kernel.await_inputs()
        self._column(x)

    def _line(self, number: int) -> _Row:
        """Return row `number` of the input under this tile. Only the outermost can be missing."""
        kernel, window, source = self.kernel, self.window, self.source
        height = self.context.input.shape[1]
        below = (self.context.output.shape[1] - 1) * window.stride[0] - window.padding.top
        beyond = max(0, below + window.reach[0] - height)
        y = kernel.let(self.top * window.stride[0] + (number - window.padding.top), "y")
        inside: Expression | None = None
        if number < window.padding.top:
            inside = y >= 0
        if number >= self.reach - beyond:
            inside = y < source.axis(1) if inside is None else inside & (y < source.axis(1))
        if inside is not None:
            inside = kernel.let(inside, "inside")
            y = kernel.let(where(inside, y, 0), "y")
        return _Row(kernel.let((self.image * source.axis(1) + y) * source.axis(2), "line"), inside)

    def _column(self, x: Expression) -> None:
        """Compute all rows of one output column."""
        kernel, window, source = self.kernel, self.window, self.source
        left = kernel.let(x * window.stride[1] - window.padding.left, "left")
        totals = [kernel.variable(self.offset, "total") for _ in range(self.rows)]
        padded = window.padding.left > 0 or window.padding.right > 0
        for column in range(window.filter[1]):
            at = kernel.let(left + column * window.dilation[1], "at")
            inside = None
            if padded:
                inside = kernel.let((at >= 0) & (at < source.axis(2)), "inside")
            for line, row in self._rows_in_use():
                both = row.inside
                if inside is not None:
                    both = inside if both is None else both & inside
                self._add_to_rows(
                    totals, line, self._read(row.start + at, both), self._column_weights(column)
                )
        self._store(totals, x, 1)

    def _column_weights(self, column: int) -> list[Expression]:
        """Return the weights of one column of the filter."""
        return self.factors[column :: self.window.filter[1]]

    def _read(self, pixel: Expression, inside: Expression | None) -> Expression:
        """Load four channels, or zeros.

        A GPU reads an unused value instead of branching, which would make each read wait for the
        last.
        """
        if inside is None:
            return self.source.load(pixel, self.slice)
        value = self.source.load(where(inside, pixel, 0), self.slice)
        return self.kernel.let(where(inside, value, 0), "v")

    def _rows_in_use(self) -> list[tuple[int, _Row]]:
        """Return the rows under the tile that some tap reads."""
        reached = _rows_read(self.window, self.rows)
        return [(number, line) for number, line in enumerate(self.lines) if number in reached]

    def _add_to_rows(
        self,
        totals: list[Variable],
        line: int,
        value: Expression,
        factors: list[Expression],
    ) -> None:
        """Add one input, times its weight, to every output row that it belongs to."""
        window = self.window
        for row, total in enumerate(totals):
            tap, remainder = divmod(line - row * window.stride[0], window.dilation[0])
            if remainder == 0 and 0 <= tap < window.filter[0]:
                self.kernel.add(total, value * factors[tap])

    def _store(self, totals: list[Variable], x: Expression, run: int) -> None:
        target = self.target
        for row, total in enumerate(totals):
            pixel = self.kernel.let(target.pixel([self.image, self.top + row, x]), "to")
            target.store(pixel, self.slice, total, run)


def _chosen_rows(context: NodeContext, window: Window) -> int:
    """Return how many output rows a work-item computes."""
    choices, choice = depthwise_row_choices(context, window), context.choice
    return int((choice if choice in choices else choices[0]).split()[0])


def depthwise_row_choices(context: NodeContext, window: Window) -> list[str]:
    """Return how many output rows a work-item may compute, the most promising first."""
    height = context.output.shape[1]
    taps = window.filter[0] * window.filter[1]
    short = context.target.emulated and taps <= MAX_FOUR_ROW_TAPS
    counts = [rows for rows in ((4, 3, 2, 1) if short else (2, 1, 4, 3)) if rows <= height]
    if context.device.is_cpu:
        counts = sorted(range(1, min(8, height) + 1), key=lambda rows: _cost(context, window, rows))
    return [f"{rows} rows" for rows in counts]


def _cost(context: NodeContext, window: Window, rows: int) -> float:
    """Estimate the rows read and multiplied, with penalties.

    Dearer are a last tile that repeats rows, more rows than the L1 cache holds, and more sums than
    registers.
    """
    _, height, width, _ = context.output.shape
    read = len(_rows_read(window, rows))
    work = -(-height // rows) * (read + rows * window.filter[0] * 2 / 3)
    near = (read * context.input.shape[2] + rows * width) * 16 <= L1_ROW_BYTES
    again, crowded = height % rows > 0, rows > 7
    return work * (1.02 if again else 1.0) * (1.0 if near else 1.3) * (1.05 if crowded else 1.0)


def _rows_read(window: Window, rows: int) -> set[int]:
    """Return the input rows under a tile that some tap reads. Dilation leaves gaps."""
    return {
        row * window.stride[0] + tap * window.dilation[0]
        for row in range(rows)
        for tap in range(window.filter[0])
    }


def fits_rows(context: NodeContext, window: Window) -> bool:
    """Return True if the fast kernel fits: few enough taps to unroll, and channels in fours."""
    taps = window.filter[0] * window.filter[1]
    source = context.locations[str(context.node.inputs[0])]
    in_fours = source.aligned and (
        context.input.channels % 4 == 0 or source.layout.value == "sliced"
    )
    return taps <= MAX_UNROLLED_TAPS and in_fours

"""The depthwise convolution on a CPU: two neighboring pixels in one vector of eight.

A work-item walks along its rows from left to right.
"""

from __future__ import annotations

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import (
    Expression,
    Pointer,
    load,
    minimum,
    vector,
    where,
    widen,
)
from fourfold.codegen.kernel import Variable
from fourfold.codegen.location import Layout
from fourfold.ops.base.window import Window
from fourfold.ops.kernels.depthwise.rows import DepthwiseRows

CACHE_LINE_FLOATS = 16  # floats in a cache line
MAX_UNROLLED_EDGES = 2  # columns with unrolled code


def supports_walk(context: NodeContext) -> bool:
    """Return True if the device is a CPU and the language supports this kernel."""
    capabilities = context.capabilities
    return context.device.is_cpu and capabilities.shifted_pointers and 8 in capabilities.widths


class DepthwiseWalk(DepthwiseRows):
    """Rows read through their own pointers; computing an index per read would cost too much."""

    def __init__(self, context: NodeContext, window: Window) -> None:
        super().__init__(context, window)
        out, wide = context.output.shape[2], context.input.shape[2]
        stride, left, reach = window.stride[1], window.padding.left, window.reach[1]
        first = min(out, -(-left // stride))
        stop = max(first, min(out, (wide - reach + left) // stride + 1))
        # The columns whose whole window is inside the image.
        self.first, self.stop = (first, stop) if stop - first >= 2 else (0, 0)

    def _ids(self, tiles: int) -> tuple[Expression, Expression, Expression]:
        x, y, z = self.kernel.ids(1, tiles, self.context.output.slices)
        return x, y, z

    def _compute(self, x: Expression) -> None:
        """Compute columns whose window is inside the image in pairs, the others one by one."""
        kernel, source = self.kernel, self.source
        self.near = {
            number: kernel.shifted(source.pointer, source.index(row.start, self.slice), 4, "row")
            for number, row in self._rows_in_use()
        }
        begin, end = kernel.size("first", self.first), kernel.size("stop", self.stop)
        if self.stop > self.first:
            self.masks = self._masks(8)
            self.output_rows = self._output_pointers()
            self.twice = [kernel.let(vector(factor, factor), "twice") for factor in self.factors]
            with kernel.loop(end, begin, 2, title="x") as step:
                x = step
                if (self.stop - self.first) % 2:
                    x = kernel.let(minimum(step, end - 2), "x")
                self._pair(x)
        self.masks = self._masks(4)
        out = self.context.output.shape[2]
        edges = self.first + out - self.stop
        if edges and edges <= MAX_UNROLLED_EDGES:
            for number, column in enumerate((*range(self.first), *range(self.stop, out))):
                self._edge(column, kernel.size(f"edge{number}", column))
        elif edges:
            with kernel.loop(kernel.size("edges", edges), title="edge") as edge:
                x = edge if self.stop == out else edge + end
                if self.first and self.stop < out:
                    x = kernel.let(where(edge < begin, edge, edge + (end - begin)), "x")
                self._any_edge(x)

    def _output_pointers(self) -> list[Pointer]:
        """Return pointers to the output rows of this work-item.

        Empty if some lanes must not be stored.
        """
        kernel, target = self.kernel, self.target
        if not target.whole or target.type.channels % 4:
            return []
        starts = [target.pixel([self.image, self.top + row, 0]) for row in range(self.rows)]
        offsets = [target.index(start, self.slice) for start in starts]
        return [kernel.shifted(target.pointer, offset, 4, "made") for offset in offsets]

    def _masks(self, width: int) -> dict[int, Expression]:
        """Return, for rows that may be missing, a mask in every lane, to avoid branches."""
        return {
            number: self.kernel.let(widen(row.inside, width), "mask")
            for number, row in self._rows_in_use()
            if row.inside is not None
        }

    def _masked(self, line: int, value: Expression) -> Expression:
        mask = self.masks.get(line)
        value = self.kernel.let(value, "v")
        return value if mask is None else self.kernel.let(where(mask, value, 0), "v")

    def _pair(self, x: Expression) -> None:
        """Compute all rows of two neighboring output columns."""
        kernel, window, source = self.kernel, self.window, self.source
        stride = window.stride[1]
        left = kernel.let(x * stride - window.padding.left, "left")
        self._fetch_next(x)
        both = vector(self.offset, self.offset)
        totals = [kernel.variable(both, "total") for _ in range(self.rows)]
        for column in range(window.filter[1]):
            at = left + column * window.dilation[1]
            for line, near in self.near.items():
                parts = [source.four_near(near, at + step * stride) for step in (0, 1)]
                value = self._masked(line, vector(*parts))
                self._add_to_rows(totals, line, value, self.twice[column :: window.filter[1]])
        for row, total in enumerate(totals):
            pixel = kernel.let(self.target.pixel([self.image, self.top + row, x]), "to")
            value = self.target.finished(pixel, self.slice, total, 2)
            if self.output_rows:
                self._put(self.output_rows[row], x, kernel.let(value, "result"))
            else:
                self.target.put(pixel, self.slice, kernel.let(value, "result"), 2)

    def _put(self, row: Pointer, x: Expression, pair: Expression) -> None:
        """Write two neighboring pixels to a row."""
        sliced = self.target.location.layout is Layout.SLICED
        for step in (0, 1):
            index = (x + step) * (1 if sliced else self.target.pitch // 4)
            self.kernel.store(row, index, pair.part(step, 4))

    def _fetch_next(self, x: Expression) -> None:
        """Prefetch a share of the same rows of the next slice."""
        share = self.reach * self.window.stride[1] * 4
        next_ = self.source.index(self.lines[0].start, self.slice + 1) * 4
        start = self.kernel.let(next_ + x * share, "ahead")
        for line in range(0, 2 * share, CACHE_LINE_FLOATS):
            self.kernel.prefetch(self.source.pointer, start + line)

    def _edge(self, column: int, x: Expression) -> None:
        """Compute a column with some taps outside the image, two neighboring rows at a time."""
        kernel, window = self.kernel, self.window
        reaches = column * window.stride[1] - window.padding.left
        left = x * window.stride[1] - window.padding.left
        taps = [
            tap
            for tap in range(window.filter[1])
            if 0 <= reaches + tap * window.dilation[1] < self.context.input.shape[2]
        ]
        values = {
            (line, tap): self._masked(
                line, self.source.four_near(near, left + tap * window.dilation[1])
            )
            for line, near in self.near.items()
            for tap in taps
        }
        for first in range(0, self.rows, 2):
            rows = range(first, min(first + 2, self.rows))
            total = kernel.variable(vector(*(self.offset for _ in rows)), "total")
            for down in range(window.filter[0]):
                for tap in taps:
                    self._add_rows(total, values, rows, (down, tap))
            for part, row in enumerate(rows):
                pixel = kernel.let(self.target.pixel([self.image, self.top + row, x]), "to")
                self.target.store(pixel, self.slice, total.part(part, 4), 1)

    def _add_rows(
        self,
        total: Variable,
        values: dict[tuple[int, int], Expression],
        rows: range,
        tap: tuple[int, int],
    ) -> None:
        window, (down, across) = self.window, tap
        offset = down * window.dilation[0]
        read = [values[row * window.stride[0] + offset, across] for row in rows]
        factor = self.factors[down * window.filter[1] + across]
        self.kernel.add(total, vector(*read) * vector(*(factor for _ in rows)))

    def _any_edge(self, x: Expression) -> None:
        """Compute any column with some taps outside the image, with a loop over the taps."""
        kernel, window, source = self.kernel, self.window, self.source
        height, width = window.filter
        left = kernel.let(x * window.stride[1] - window.padding.left, "left")
        totals = [kernel.variable(self.offset, "total") for _ in range(self.rows)]
        with kernel.loop(kernel.size("filter_columns", width), title="tap") as column:
            at = kernel.let(left + column * window.dilation[1], "at")
            with kernel.when((at >= 0) & (at < source.axis(2))):
                factors = [
                    kernel.let(
                        load(self.filters, self.weights_at + tap * width + column, kernel.real, 4)
                    )
                    for tap in range(height)
                ]
                for line, near in self.near.items():
                    value = self._masked(line, source.four_near(near, at))
                    self._add_to_rows(totals, line, value, factors)
        self._store(totals, x, 1)

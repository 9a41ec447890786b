"""Matrix-vector products: a row of work-items reads the weights of each output.

Each weight is used once, so the time is that of reading them. The first weights are requested
before the vector is available, and neighboring work-items read neighboring weights.
"""

from __future__ import annotations

import operator

import numpy as np

from fourfold.codegen.combine import group_combine
from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import Expression, const, guarded, load, vector
from fourfold.codegen.kernel import Variable
from fourfold.ops.kernels.conv.tile import should_time_images
from fourfold.plan.layout import Arranged, ArrayLayout

LANES = 32  # work-items per row
ROWS = 8  # outputs per group
STEPS = 16  # slices of weights that a work-item requests at once
BY_BUFFER, BY_IMAGE = "by buffer", "by image"
MAX_VECTORS = 4
MIN_SLICES = 2 * LANES  # slices; with fewer, most of a row would be idle


def refuses_rows(context: NodeContext) -> str | None:
    """Return why a product should use another kernel, or None."""
    if context.device.is_cpu or context.device.max_work_group < LANES * ROWS:
        return f"it needs a GPU with work-groups of {LANES * ROWS} work-items"
    if not context.device.local_memory:
        return "the device has no local memory"
    if context.output.pixels > MAX_VECTORS or context.input.pixels != context.output.pixels:
        return f"more than {MAX_VECTORS} vectors should share the weights"
    return None if context.input.slices >= MIN_SLICES else "the vectors are too short"


def row_choices(context: NodeContext) -> list[str]:
    """Return the kernel choices for reading weights, if there are two."""
    return [BY_BUFFER, BY_IMAGE] if should_time_images(context.device) else []


class RowProduct:
    """The kernel for weights [outputs, inputs] and an optional bias."""

    def __init__(
        self, context: NodeContext, title: str, weights: np.ndarray, bias: np.ndarray | None
    ) -> None:
        self.context, self.kernel = context, context.kernel(f"{title}_rows")
        self.steps = -(-context.input.slices // LANES)
        self.ahead = min(STEPS, self.steps)
        self.rounds = -(-self.steps // self.ahead)
        self.source, self.target = context.read(self.kernel, 0), context.write(self.kernel)
        outputs = -(-weights.shape[0] // ROWS) * ROWS
        padded = (outputs, self.rounds * self.ahead * LANES * 4)
        layout = ArrayLayout.plain(weights.shape, padded)
        packed = Arranged.of(weights.astype(np.float32, copy=False), layout)
        image = (
            context.device.prefers_images if context.choice is None else context.choice == BY_IMAGE
        )
        self.weights = context.weights(self.kernel, "weights", packed, image)
        if context.options.streams:
            self.kernel.streamed.add(self.weights.name)
        added = np.zeros(outputs, np.float32)
        added[: weights.shape[0]] = 0 if bias is None else bias
        self.bias = context.packed(self.kernel, "bias", added)

    def write(self) -> None:
        kernel, outputs = self.kernel, -(-self.context.output.channels // ROWS) * ROWS
        pixels = self.context.output.pixels
        lane, output, pixel = kernel.ids(LANES, outputs, pixels, local=(LANES, ROWS, 1))
        row = kernel.let(kernel.local_id(1), "row")
        stride = kernel.size("stride", self.rounds * self.ahead * LANES)
        start = kernel.let(output * stride + lane, "start")
        bias = load(self.bias, output, kernel.real)
        total = kernel.variable(guarded(lane.equals(0), bias), "total")
        sums = kernel.variable(const(0.0, kernel.real, 4), "sums")
        factors = self._factors(start)
        kernel.await_inputs()
        self._add(sums, factors, pixel, lane)
        if self.rounds > 1:
            with kernel.loop(kernel.size("rounds", self.rounds), 1, title="round") as number:
                first = kernel.let(number * (self.ahead * LANES), "first")
                self._add(sums, self._factors(start + first), pixel, lane + first)
        for part in range(4):
            kernel.add(total, sums.lane(part))
        group_combine(kernel, [total], LANES, operator.add, row=row)
        self._store(total, row, lane, output, pixel)

    def _factors(self, start: Expression) -> list[Expression]:
        kernel = self.kernel
        indices = [start + step * LANES for step in range(self.ahead)]
        return [kernel.let(load(self.weights, at, kernel.real, 4), "w") for at in indices]

    def _add(
        self, sums: Variable, factors: list[Expression], pixel: Expression, first: Expression
    ) -> None:
        """Add products. Weights beyond the last slice are zeros; inputs there are not read."""
        kernel, exact = self.kernel, self.rounds * self.ahead * LANES == self.context.input.slices
        values = []
        for step in range(len(factors)):
            slice_ = kernel.let(first + step * LANES, "slice")
            inside = None if exact else slice_ < self.source.slices
            values.append(self.source.load(pixel, slice_, inside))
        for value, factor in zip(values, factors, strict=True):
            kernel.add(sums, value * factor)

    def _store(
        self,
        total: Variable,
        row: Expression,
        lane: Expression,
        output: Expression,
        pixel: Expression,
    ) -> None:
        """Store the results: four rows make a slice."""
        kernel = self.kernel
        totals = kernel.local_array("totals", total.kind, 1, ROWS)
        with kernel.when(lane.equals(0)):
            kernel.store(totals, row, total)
        kernel.barrier()
        slice_ = kernel.let(output // 4, "slice")
        first = lane.equals(0) & (row % 4).equals(0)
        with kernel.when(first & (slice_ < self.target.slices)):
            values = [load(totals, row + part, total.kind) for part in range(4)]
            self.target.store(pixel, slice_, vector(*values))
        kernel.barrier()  # The group may continue with further outputs.

"""y = zeros with y[indices[i]] += updates[i] for each row i of the indices."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import Expression, const, vector, where
from fourfold.codegen.view import View
from fourfold.ops.base import Case, IndexRange, Op, Types, Variant
from fourfold.ops.base.rules import INDICES, NUMBERS, require_kind, takes
from fourfold.ops.kernels.grid import plain_grid
from fourfold.ops.kernels.indexing import require_rows, scatter, update_pixel_of
from fourfold.ops.kernels.reduce import start_value
from fourfold.types import Shape, TensorType


@dataclass(frozen=True)
class ScatterNd:
    """The shape of the result."""

    shape: Shape


@takes("scatter_nd", 2)
def infer(attributes: ScatterNd, indices: TensorType, updates: TensorType) -> Types:
    shape = attributes.shape
    require_kind("scatter_nd", INDICES, indices)
    require_kind("scatter_nd", NUMBERS, updates)
    require_rows("scatter_nd", shape, indices, updates)
    return (updates.with_shape(*shape),)


def reference(attributes: ScatterNd, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
    y = np.zeros(attributes.shape, updates.dtype)
    return scatter(y, tuple(np.moveaxis(indices, -1, 0)), updates, "add")


def valid_indices(attributes: ScatterNd, indices: TensorType, updates: TensorType) -> IndexRange:
    sizes = attributes.shape[: indices.channels]
    return IndexRange(0, (0,) * len(sizes), tuple(size - 1 for size in sizes))


def build(context: NodeContext) -> None:
    """Each output checks every row of the indices for itself."""
    kernel = context.kernel("scatter_nd")
    indices, updates = context.read(kernel, 0, "indices"), context.read(kernel, 1, "updates")
    target = context.write(kernel)
    rows = kernel.size("rows", math.prod(context.input.shape[:-1]))
    depth, rank = context.input.channels, context.output.rank
    for pixel, slice_ in plain_grid(kernel, context.device, target):
        at = [kernel.let(position, "at") for position in target.coordinates(pixel)]
        total = kernel.variable(start_value(updates.kind, 0.0), "total")
        with kernel.loop(rows, title="row") as row:
            selected = const(True)
            for axis in range(min(depth, rank - 1)):
                selected = selected & indices.element(row, axis).equals(at[axis])
            with kernel.when(kernel.let(selected, "meant")):
                value = _update(indices, updates, row, at[depth:], slice_, depth == rank)
                kernel.add(total, value)
        target.store(pixel, slice_, total)


def _update(
    indices: View,
    updates: View,
    row: Expression,
    others: list[Expression],
    slice_: Expression,
    selects_channel: bool,
) -> Expression:
    """Return what a row adds to four channels: all of them, or the one that it selects."""
    if not selects_channel:
        return updates.load(update_pixel_of(indices, updates, row, others), slice_)
    count = updates.channels if updates.type.rank else const(1)
    value = updates.element(row // count, row % count)
    channel = indices.kernel.let(indices.element(row, indices.type.channels - 1), "channel")
    zero = const(0, updates.kind)
    lanes = (where(channel.equals(slice_ * 4 + lane), value, zero) for lane in range(4))
    return vector(*lanes)


OP = Op(
    name="scatter_nd",
    attributes=ScatterNd,
    infer=infer,
    reference=reference,
    indices=valid_indices,
    variants=(Variant("ask", build),),
    cases=(
        # `high` is the last index of the shortest indexed axis.
        Case(("i32[1]", "f32[]"), ScatterNd((7,)), low=0, high=6),
        Case(("i32[5,1]", "f32[5]"), ScatterNd((7,)), low=0, high=6),
        Case(("i32[3,1]", "f32[3,5]"), ScatterNd((7, 5)), low=0, high=6),
        Case(("i32[11,2]", "f32[11]"), ScatterNd((3, 5)), low=0, high=2),
        Case(("i64[2,3,2]", "f32[2,3,13]"), ScatterNd((3, 5, 13)), low=0, high=2),
        Case(("i32[2,1]", "f32[2,5,7,3]"), ScatterNd((3, 5, 7, 3)), low=0, high=2),
        Case(("i32[2,3,3]", "f32[2,3]"), ScatterNd((3, 5, 13)), low=0, high=2),
        Case(("i32[5,2]", "i32[5]"), ScatterNd((3, 5)), constants=(0,), low=0, high=2),
    ),
)

"""y[b, i] = weighted mean of the rows of x[b] whose owner is i; zeros if there are none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import const, where, widen
from fourfold.ops.base import Case, Op, Types, Variant
from fourfold.ops.base.rules import require, require_kind, takes
from fourfold.ops.kernels.grid import plain_grid
from fourfold.types import DType, TensorType


@dataclass(frozen=True)
class BlendRows:
    """The number of rows of the result."""

    count: int


@takes("blend_rows", 3)
def infer(attributes: BlendRows, x: TensorType, weights: TensorType, owners: TensorType) -> Types:
    op = "blend_rows"
    require_kind(op, frozenset({DType.F32}), x, weights)
    require(x.rank == 3 and attributes.count > 0, op, f"{x} is not [batch,rows,columns]")
    fits = weights.shape == owners.shape == (*x.shape[:2], 1) and owners.dtype is DType.I32
    require(fits, op, f"weights are {weights} and owners {owners}, but rows {x}")
    return (x.with_shape(x.shape[0], attributes.count, x.channels),)


def reference(
    attributes: BlendRows, x: np.ndarray, weights: np.ndarray, owners: np.ndarray
) -> np.ndarray:
    owned = owners == np.arange(attributes.count)
    shares = np.where(owned, weights, np.float32(0))
    total = shares.sum(1)[..., None]
    sums = shares.swapaxes(1, 2) @ x
    return np.where(total > 0, sums / np.where(total > 0, total, 1), 0).astype(np.float32)


def build(context: NodeContext) -> None:
    """Each output row walks over all rows of its picture, a few thousand at most."""
    kernel = context.kernel("blend_rows")
    kernel.real = "float"
    view, weights = context.read(kernel, 0), context.read(kernel, 1, "weights")
    owners, target = context.read(kernel, 2, "owners"), context.write(kernel)
    for pixel, slice_ in plain_grid(kernel, context.device, target):
        batch, number = (kernel.let(position, "at") for position in target.coordinates(pixel))
        sums = kernel.variable(const(0.0, "float", 4), "sums")
        total = kernel.variable(const(0.0, "float"), "total")
        first = kernel.let(view.pixel([batch, const(0)]), "first")
        with kernel.loop(view.axis(1), title="i") as i:
            row = kernel.let(first + i, "row")
            with kernel.when(owners.lane(row, 0, 0).equals(number)):
                weight = kernel.let(weights.lane(row, 0, 0), "weight")
                kernel.add(total, weight)
                kernel.add(sums, view.load(row, slice_) * widen(weight, 4))
        has_weight = kernel.let(total > 0.0, "some")
        mean = sums / widen(where(has_weight, total, 1.0), 4)
        target.store(pixel, slice_, where(has_weight, mean, const(0.0, "float", 4)))


OP = Op(
    name="blend_rows",
    attributes=BlendRows,
    infer=infer,
    reference=reference,
    heavy=True,
    variants=(Variant("each", build),),
    cases=(
        Case(("f32[1,29,4]", "f32[1,29,1]", "i32[1,29,1]"), BlendRows(5), low=0, high=4),
        Case(("f32[2,7,13]", "f32[2,7,1]", "i32[2,7,1]"), BlendRows(3), low=0, high=5),
        Case(("f32[1,1,6]", "f32[1,1,1]", "i32[1,1,1]"), BlendRows(2), low=0, high=1),
    ),
)

"""y[b, i] = x[b, indices[b, i]]; zeros where the index is negative."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.ops.base import Case, IndexRange, Op, Types, Variant
from fourfold.ops.base.rules import NUMBERS, require, require_kind, takes
from fourfold.ops.kernels.grid import plain_grid
from fourfold.ops.kernels.indexing import bound_index, bound_indices
from fourfold.types import DType, TensorType


@takes("gather_rows", 2)
def infer(attributes: object, x: TensorType, indices: TensorType) -> Types:
    op = "gather_rows"
    require_kind(op, NUMBERS, x)
    require(x.rank == 3 and x.elements > 0, op, f"{x} is not [batch,rows,columns]")
    fits = indices.dtype is DType.I32 and indices.shape == (x.shape[0], *indices.shape[1:2], 1)
    require(fits, op, f"{indices} cannot index the rows of {x}")
    return (x.with_shape(x.shape[0], indices.shape[1], x.channels),)


def reference(attributes: object, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    rows = np.take_along_axis(x, bound_indices(indices, x.shape[1]), 1)
    return np.where(indices < 0, x.dtype.type(0), rows)


def valid_indices(attributes: object, x: TensorType, indices: TensorType) -> IndexRange:
    return IndexRange(1, (np.iinfo(np.int32).min,), (x.shape[1] - 1,))


def build(context: NodeContext) -> None:
    """Each output row reads its index; four columns move together."""
    kernel = context.kernel("gather_rows")
    view, indices = context.read(kernel, 0), context.read(kernel, 1, "indices")
    target = context.write(kernel)
    for pixel, slice_ in plain_grid(kernel, context.device, target):
        batch = target.coordinates(pixel)[0]
        index = kernel.let(indices.lane(pixel, 0, 0), "index")
        row = kernel.let(view.pixel([batch, bound_index(view, 1, index)]), "row")
        target.store(pixel, slice_, view.load(row, slice_, inside=index >= 0))


OP = Op(
    name="gather_rows",
    infer=infer,
    reference=reference,
    indices=valid_indices,
    variants=(Variant("gather", build),),
    cases=(
        # `high` is the last index of the shortest indexed axis.
        Case(("f32[1,7,4]", "i32[1,3,1]"), low=-2, high=6),
        Case(("f32[3,5,1]", "i32[3,11,1]"), low=-5, high=4),
        Case(("f32[2,29,17]", "i32[2,13,1]"), low=-3, high=28),
        Case(("i32[2,3,1]", "i32[2,2,1]"), low=-1, high=2),
        Case(("f32[1,1,6]", "i32[1,5,1]"), low=-1, high=0),
    ),
)

"""y = x[..., indices, ...]: the entries of x along the axis that the indices select."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import Expression, const, guarded, vector
from fourfold.codegen.view import View
from fourfold.ops.base import Case, IndexRange, Op, Types, Variant
from fourfold.ops.base.rules import ANY, INDICES, require, require_axis, require_kind, takes
from fourfold.ops.kernels.grid import plain_grid
from fourfold.ops.kernels.indexing import bound_index, bound_indices
from fourfold.types import TensorType


@dataclass(frozen=True)
class Gather:
    """The axis to index; x and the indices share the first `batch_dims` axes.

    With `from_end`, negative indices count from the end.
    """

    axis: int = 0
    batch_dims: int = 0
    from_end: bool = False


@takes("gather", 2)
def infer(attributes: Gather, x: TensorType, indices: TensorType) -> Types:
    axis, batch = attributes.axis, attributes.batch_dims
    require_kind("gather", ANY, x)
    require_kind("gather", INDICES, indices)
    require_axis("gather", axis, x.rank)
    require(x.shape[axis] > 0, "gather", f"axis {axis} of {x} is empty")
    fits = 0 <= batch <= min(axis, indices.rank) and x.shape[:batch] == indices.shape[:batch]
    require(fits, "gather", f"{x} and {indices} do not share {batch} axes before axis {axis}")
    return (x.with_shape(*x.shape[:axis], *indices.shape[batch:], *x.shape[axis + 1 :]),)


def reference(attributes: Gather, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    axis, batch = attributes.axis, attributes.batch_dims
    shape = x.shape[:axis] + indices.shape[batch:] + x.shape[axis + 1 :]
    y = np.empty(shape, x.dtype)
    for at in np.ndindex(x.shape[:batch]):
        places = bound_indices(indices[at], x.shape[axis], attributes.from_end)
        y[at] = np.take(x[at], places, axis=axis - batch)
    return y


def valid_indices(attributes: Gather, x: TensorType, indices: TensorType) -> IndexRange:
    size = x.shape[attributes.axis]
    return IndexRange(1, (-size if attributes.from_end else 0,), (size - 1,))


def build(context: NodeContext) -> None:
    """Each output reads its index, then the entry it selects."""
    assert isinstance(context.attributes, Gather)
    kernel = context.kernel("gather")
    view, indices, target = (
        context.read(kernel, 0),
        context.read(kernel, 1, "indices"),
        context.write(kernel),
    )
    last = context.attributes.axis == context.input.rank - 1
    for pixel, slice_ in plain_grid(kernel, context.device, target):
        at = [kernel.let(position, "at") for position in target.coordinates(pixel)]
        if not last and view.whole:
            # The channels keep their position, so four of them move together.
            source = _entry(context.attributes, view, indices, [*at, const(0)])
            value = view.load(view.pixel(source[:-1]), slice_)
        else:
            value = vector(
                *(_lane(context, view, indices, target, at, slice_, n) for n in range(4))
            )
        target.store(pixel, slice_, value)


def _lane(
    context: NodeContext,
    view: View,
    indices: View,
    target: View,
    at: list[Expression],
    slice_: Expression,
    lane: int,
) -> Expression:
    assert isinstance(context.attributes, Gather)
    channel = slice_ * 4 + lane
    exists = (
        const(lane < target.type.channels)
        if target.type.channels < 4
        else channel < target.channels
    )
    channel = view.kernel.let(guarded(exists, channel), "channel")
    coordinates = [*at, channel] if target.type.rank else []
    source = _entry(context.attributes, view, indices, coordinates)
    return view.kernel.let(view.element(view.pixel(source[:-1]), source[-1]), "v")


def _entry(attributes: Gather, view: View, indices: View, at: list[Expression]) -> list[Expression]:
    """Return the coordinates in x of the output at these coordinates."""
    axis, batch = attributes.axis, attributes.batch_dims
    middle = indices.type.rank - batch
    index_coordinates = [*at[:batch], *at[axis : axis + middle]]
    index = indices.element(
        indices.pixel(index_coordinates[:-1]),
        index_coordinates[-1] if index_coordinates else const(0),
    )
    return [
        *at[:axis],
        bound_index(view, axis, index, attributes.from_end),
        *at[axis + middle :],
    ]


OP = Op(
    name="gather",
    attributes=Gather,
    infer=infer,
    reference=reference,
    indices=valid_indices,
    variants=(Variant("gather", build),),
    cases=(
        # `high` is the last index of the axis, so that every index is valid.
        Case(("f32[7]", "i32[]"), Gather(), low=0, high=6),
        Case(("f32[7]", "i32[3]"), Gather(), low=0, high=6),
        Case(("f32[11,5]", "i32[3,2]"), Gather(), low=0, high=10),
        Case(("f32[11,8]", "i64[3]"), Gather(), low=0, high=10),
        Case(("f32[11,8]", "i32[5]"), Gather(), constants=(0,), low=0, high=10),
        Case(("f32[2,5,7,13]", "i32[3]"), Gather(axis=3), constants=(1,), low=0, high=12),
        Case(("f32[2,5,7,3]", "i32[4]"), Gather(axis=1), low=0, high=4),
        Case(("f32[2,5,7]", "i32[2,3]"), Gather(axis=1, batch_dims=1), low=0, high=4),
        Case(("f32[2,3,5,7]", "i32[2,2]"), Gather(axis=2, batch_dims=1), low=0, high=4),
        Case(("i32[11,3]", "i32[5]"), Gather(), low=0, high=10),
        Case(("f32[11,8]", "i32[5]"), Gather(from_end=True), low=-11, high=10),
        Case(("f32[3,13]", "i64[7]"), Gather(axis=1, from_end=True), low=-13, high=12),
    ),
)

"""y[.., i, ..] = x[.., indices[.., i, ..], ..]: each index selects an element along the axis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import Expression, const, guarded, vector
from fourfold.codegen.view import View
from fourfold.ops.base import Case, IndexRange, Op, Types, Variant
from fourfold.ops.base.rules import ANY, INDICES, require, require_kind, takes
from fourfold.ops.kernels.grid import plain_grid
from fourfold.ops.kernels.indexing import bound_index, bound_indices, require_along
from fourfold.types import TensorType


@dataclass(frozen=True)
class GatherElements:
    """The axis to index; negative indices count from its end."""

    axis: int = 0


@takes("gather_elements", 2)
def infer(attributes: GatherElements, x: TensorType, indices: TensorType) -> Types:
    op, axis = "gather_elements", attributes.axis
    require_kind(op, ANY, x)
    require_kind(op, INDICES, indices)
    require_along(op, axis, x, indices)
    require(x.shape[axis] > 0, op, f"axis {axis} of {x} is empty")
    return (x.with_shape(*indices.shape),)


def reference(attributes: GatherElements, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    kept = [slice(size) for size in indices.shape]
    kept[attributes.axis] = slice(None)
    positions = bound_indices(indices, x.shape[attributes.axis], from_end=True)
    return np.take_along_axis(x[tuple(kept)], positions, attributes.axis)


def valid_indices(attributes: GatherElements, x: TensorType, indices: TensorType) -> IndexRange:
    size = x.shape[attributes.axis]
    return IndexRange(1, (-size,), (size - 1,))


def build(context: NodeContext) -> None:
    """Each output reads its own index, then the element it selects."""
    assert isinstance(context.attributes, GatherElements)
    axis = context.attributes.axis
    kernel = context.kernel("gather_elements")
    view, indices = context.read(kernel, 0), context.read(kernel, 1, "indices")
    target = context.write(kernel)
    for pixel, slice_ in plain_grid(kernel, context.device, target):
        at = [kernel.let(position, "at") for position in target.coordinates(pixel)]
        lanes = (_lane((view, indices), axis, at, (pixel, slice_), n) for n in range(4))
        target.store(pixel, slice_, vector(*lanes))


def _lane(
    views: tuple[View, View],
    axis: int,
    at: list[Expression],
    four: tuple[Expression, Expression],
    lane: int,
) -> Expression:
    """Return one element; lanes beyond the last channel repeat the first."""
    view, indices = views
    (pixel, slice_), channels = four, indices.type.channels
    channel = slice_ * 4 + lane
    exists = const(lane < channels) if channels < 4 else channel < indices.channels
    channel = view.kernel.let(guarded(exists, channel), "channel")
    coordinates = [*at, channel]
    coordinates[axis] = bound_index(view, axis, indices.element(pixel, channel), from_end=True)
    return view.kernel.let(view.element(view.pixel(coordinates[:-1]), coordinates[-1]), "v")


OP = Op(
    name="gather_elements",
    attributes=GatherElements,
    infer=infer,
    reference=reference,
    indices=valid_indices,
    variants=(Variant("gather", build),),
    cases=(
        # Indices from -size to size - 1.
        Case(("f32[7]", "i32[3]"), GatherElements(), low=-7, high=6),
        Case(("f32[5,3]", "i64[7,2]"), GatherElements(), low=-5, high=4),
        Case(("f32[3,11]", "i32[3,5]"), GatherElements(1), low=-11, high=10),
        Case(("f32[2,5,7,13]", "i32[2,5,3,8]"), GatherElements(2), low=-7, high=6),
        Case(("f32[2,5,7,8]", "i32[2,3,7,8]"), GatherElements(1), constants=(1,), low=0, high=4),
        Case(("i32[2,3,4]", "i32[2,3,9]"), GatherElements(2), constants=(0,), low=-4, high=3),
    ),
)

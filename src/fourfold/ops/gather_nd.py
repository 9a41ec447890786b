"""y[i...] = x[indices[i...]]: each row of the indices selects an entry on the first axes of x."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import Expression, const, guarded, vector
from fourfold.codegen.view import View
from fourfold.ops.base import Case, IndexRange, Op, Types, Variant
from fourfold.ops.base.rules import ANY, INDICES, require, require_kind, takes
from fourfold.ops.kernels.grid import plain_grid
from fourfold.ops.kernels.indexing import bound_index, bound_indices
from fourfold.types import TensorType


@dataclass(frozen=True)
class GatherNd:
    """With `from_end`, negative indices count from the end."""

    from_end: bool = False


@takes("gather_nd", 2)
def infer(attributes: GatherNd, x: TensorType, indices: TensorType) -> Types:
    require_kind("gather_nd", ANY, x)
    require_kind("gather_nd", INDICES, indices)
    fits = indices.rank > 0 and 0 < indices.channels <= x.rank
    require(fits, "gather_nd", f"the rows of {indices} cannot index {x}")
    depth = indices.channels
    require(min(x.shape[:depth]) > 0, "gather_nd", f"{x} is empty")
    return (x.with_shape(*indices.shape[:-1], *x.shape[depth:]),)


def reference(attributes: GatherNd, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    sizes = np.array(x.shape[: indices.shape[-1]])
    places = bound_indices(indices, sizes, attributes.from_end)
    return np.asarray(x[tuple(np.moveaxis(places, -1, 0))])


def valid_indices(attributes: GatherNd, x: TensorType, indices: TensorType) -> IndexRange:
    sizes = x.shape[: indices.channels]
    low = (-size if attributes.from_end else 0 for size in sizes)
    return IndexRange(1, tuple(low), tuple(size - 1 for size in sizes))


def build(context: NodeContext) -> None:
    """Each output reads its row of indices, then the entry it selects."""
    assert isinstance(context.attributes, GatherNd)
    from_end = context.attributes.from_end
    kernel = context.kernel("gather_nd")
    view, indices = context.read(kernel, 0), context.read(kernel, 1, "indices")
    target = context.write(kernel)
    named = context.input_type(1).channels == context.input.rank
    for pixel, slice_ in plain_grid(kernel, context.device, target):
        at = [kernel.let(position, "at") for position in target.coordinates(pixel)]
        if named:
            value = vector(
                *(_lane((view, indices, target), from_end, at, slice_, n) for n in range(4))
            )
        else:
            rows = indices.type.rank - 1
            coordinates = [*_row(view, indices, from_end, at[:rows]), *at[rows:]]
            value = view.load(view.pixel(coordinates), slice_)
        target.store(pixel, slice_, value)


def _row(view: View, indices: View, from_end: bool, at: list[Expression]) -> list[Expression]:
    """Return the coordinates in x that one row of the indices selects."""
    row = view.kernel.let(indices.pixel(at), "row")
    count = indices.type.channels
    return [bound_index(view, n, indices.element(row, n), from_end) for n in range(count)]


def _lane(
    views: tuple[View, View, View],
    from_end: bool,
    at: list[Expression],
    slice_: Expression,
    lane: int,
) -> Expression:
    """Return one element; lanes beyond the last channel repeat the first."""
    view, indices, target = views
    channel = slice_ * 4 + lane
    small = target.type.channels < 4
    exists = const(lane < target.type.channels) if small else channel < target.channels
    channel = view.kernel.let(guarded(exists, channel), "channel")
    coordinates = _row(view, indices, from_end, [*at, channel] if target.type.rank else [])
    return view.kernel.let(view.element(view.pixel(coordinates[:-1]), coordinates[-1]), "v")


OP = Op(
    name="gather_nd",
    attributes=GatherNd,
    infer=infer,
    reference=reference,
    indices=valid_indices,
    variants=(Variant("gather", build),),
    cases=(
        # `high` is the last index of the shortest indexed axis.
        Case(("f32[7]", "i32[1]"), GatherNd(), low=0, high=6),
        Case(("f32[7]", "i32[5,1]"), GatherNd(), low=0, high=6),
        Case(("f32[11,5]", "i32[3,1]"), GatherNd(), low=0, high=10),
        Case(("f32[5,7]", "i32[11,2]"), GatherNd(), low=0, high=4),
        Case(("f32[5,7,13]", "i64[2,3,2]"), GatherNd(), low=0, high=4),
        Case(("f32[5,7,13]", "i32[2,3,3]"), GatherNd(), low=0, high=4),
        Case(("f32[2,5,7,3]", "i32[3,1]"), GatherNd(), low=0, high=1),
        Case(("f32[2,5,7,8]", "i32[2]"), GatherNd(), low=0, high=1),
        Case(("i32[3,5]", "i32[7,2]"), GatherNd(), constants=(1,), low=0, high=2),
        Case(("f32[5,7]", "i32[11,2]"), GatherNd(from_end=True), low=-5, high=4),
        Case(("f32[5,7,13]", "i64[3,2]"), GatherNd(from_end=True), low=-5, high=4),
    ),
)

"""y = x with y[indices[i]] = updates[i] for each row i of the indices, or combined."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import Expression, const, where, widen
from fourfold.codegen.view import View
from fourfold.ops.base import Case, IndexRange, Op, Types, Variant
from fourfold.ops.base.rules import takes
from fourfold.ops.kernels.grid import plain_grid
from fourfold.ops.kernels.indexing import (
    apply_reduction,
    matching_lanes,
    require_rows,
    require_scatter,
    scatter,
    update_pixel_of,
    wrap_index,
    wrap_indices,
)
from fourfold.types import TensorType


@dataclass(frozen=True)
class ScatterUpdate:
    """The reduction of elements and updates; negative indices count from the end."""

    reduction: str = "none"


@takes("scatter_update", 3)
def infer(
    attributes: ScatterUpdate, x: TensorType, indices: TensorType, updates: TensorType
) -> Types:
    require_scatter("scatter_update", attributes.reduction, x, indices, updates)
    require_rows("scatter_update", x.shape, indices, updates)
    return (x,)


def reference(
    attributes: ScatterUpdate, x: np.ndarray, indices: np.ndarray, updates: np.ndarray
) -> np.ndarray:
    sizes = np.array(x.shape[: indices.shape[-1]])
    positions = np.moveaxis(wrap_indices(indices, sizes), -1, 0)
    return scatter(x.copy(), tuple(positions), updates, attributes.reduction)


def valid_indices(
    attributes: ScatterUpdate, x: TensorType, indices: TensorType, updates: TensorType
) -> IndexRange:
    sizes = x.shape[: indices.channels]
    return IndexRange(1, tuple(-size for size in sizes), tuple(size - 1 for size in sizes))


def build(context: NodeContext) -> None:
    """Each output checks every row of the indices for itself."""
    assert isinstance(context.attributes, ScatterUpdate)
    reduction = context.attributes.reduction
    kernel = context.kernel("scatter_update")
    source, indices = context.read(kernel, 0), context.read(kernel, 1, "indices")
    updates, target = context.read(kernel, 2, "updates"), context.write(kernel)
    depth, rank = indices.type.channels, source.type.rank
    rows = kernel.size("rows", math.prod(indices.type.shape[:-1]))
    for pixel, slice_ in plain_grid(kernel, context.device, target):
        at = [kernel.let(position, "at") for position in target.coordinates(pixel)]
        value = kernel.variable(source.load(pixel, slice_), "value")
        with kernel.loop(rows, title="row") as row:
            selected = const(True)
            for axis in range(min(depth, rank - 1)):
                index = wrap_index(target, axis, indices.element(row, axis))
                selected = selected & index.equals(at[axis])
            with kernel.when(kernel.let(selected, "meant")):
                if depth == rank:
                    named, update = _one_lane((indices, updates, target), row, slice_)
                    updated = where(named, apply_reduction(reduction, value, update), value)
                else:
                    update_pixel = kernel.let(
                        update_pixel_of(indices, updates, row, at[depth:]), "place"
                    )
                    updated = apply_reduction(reduction, value, updates.load(update_pixel, slice_))
                kernel.set(value, updated)
        target.store(pixel, slice_, value)


def _one_lane(
    views: tuple[View, View, View], row: Expression, slice_: Expression
) -> tuple[Expression, Expression]:
    """Return the lane that a row with a channel index selects, and its update."""
    indices, updates, target = views
    kernel, last = target.kernel, indices.type.channels - 1
    count = updates.channels if updates.type.rank else const(1)
    update = widen(kernel.let(updates.element(row // count, row % count), "update"), 4)
    channel = wrap_index(target, last, indices.element(row, last))
    return matching_lanes(channel, slice_), update


OP = Op(
    name="scatter_update",
    attributes=ScatterUpdate,
    infer=infer,
    reference=reference,
    indices=valid_indices,
    variants=(Variant("ask", build),),
    cases=(
        # Indices from -size to size - 1 of the shortest indexed axis. The order of updates to one
        # element is undefined, so cases without a reduction have one row each.
        Case(("f32[7]", "i32[1]", "f32[]"), ScatterUpdate(), low=-7, high=6),
        Case(("f32[3,5,7]", "i64[1,2]", "f32[1,7]"), ScatterUpdate(), low=-3, high=2),
        Case(("f32[7]", "i32[5,1]", "f32[5]"), ScatterUpdate("add"), low=-7, high=6),
        Case(("f32[7,5]", "i32[3,1]", "f32[3,5]"), ScatterUpdate("mul"), low=-7, high=6),
        Case(("f32[3,5]", "i32[11,2]", "f32[11]"), ScatterUpdate("max"), low=-3, high=2),
        Case(("f32[3,5,13]", "i64[2,3,2]", "f32[2,3,13]"), ScatterUpdate("min"), low=-3, high=2),
        Case(("f32[3,5,7,8]", "i32[2,1]", "f32[2,5,7,8]"), ScatterUpdate("add"), low=-3, high=2),
        Case(
            ("i32[3,5]", "i32[5,2]", "i32[5]"), ScatterUpdate("add"), constants=(1,), low=0, high=2
        ),
    ),
)

"""y = x with y[.., indices[.., i, ..], ..] = updates[.., i, ..] along the axis, or combined."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fourfold.codegen.broadcast import mask_beyond
from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import Expression, const, where, widen
from fourfold.codegen.view import View
from fourfold.ops.base import Case, IndexRange, Op, Types, Variant
from fourfold.ops.base.rules import require, takes
from fourfold.ops.kernels.grid import plain_grid
from fourfold.ops.kernels.indexing import (
    apply_reduction,
    matching_lanes,
    require_along,
    require_scatter,
    scatter,
    wrap_index,
    wrap_indices,
)
from fourfold.types import TensorType


@dataclass(frozen=True)
class ScatterElements:
    """The axis to index, and the reduction; negative indices count from the end."""

    axis: int = 0
    reduction: str = "none"


@takes("scatter_elements", 3)
def infer(
    attributes: ScatterElements, x: TensorType, indices: TensorType, updates: TensorType
) -> Types:
    op, axis = "scatter_elements", attributes.axis
    require_scatter(op, attributes.reduction, x, indices, updates)
    require_along(op, axis, x, indices)
    require(
        indices.shape == updates.shape,
        op,
        f"updates {updates} do not have the shape of indices {indices}",
    )
    require(min(x.shape) > 0, op, f"{x} is empty")
    return (x,)


def reference(
    attributes: ScatterElements, x: np.ndarray, indices: np.ndarray, updates: np.ndarray
) -> np.ndarray:
    positions: list[np.ndarray] = [np.asarray(one) for one in np.indices(indices.shape)]
    positions[attributes.axis] = wrap_indices(indices, x.shape[attributes.axis])
    return scatter(x.copy(), tuple(positions), updates, attributes.reduction)


def valid_indices(
    attributes: ScatterElements, x: TensorType, indices: TensorType, updates: TensorType
) -> IndexRange:
    size = x.shape[attributes.axis]
    return IndexRange(1, (-size,), (size - 1,))


def build(context: NodeContext) -> None:
    """Each output checks every index of its line for itself."""
    attributes = context.attributes
    assert isinstance(attributes, ScatterElements)
    axis, rank = attributes.axis, context.input.rank
    kernel = context.kernel("scatter_elements")
    source, indices = context.read(kernel, 0), context.read(kernel, 1, "indices")
    updates, target = context.read(kernel, 2, "updates"), context.write(kernel)
    for pixel, slice_ in plain_grid(kernel, context.device, target):
        at = [kernel.let(position, "at") for position in target.coordinates(pixel)]
        value = kernel.variable(source.load(pixel, slice_), "value")
        within = const(True)
        for number in range(rank - 1):
            if number != axis and indices.type.shape[number] < source.type.shape[number]:
                within = within & (at[number] < indices.axis(number))
        if axis != rank - 1 and indices.type.slices < target.type.slices:
            within = within & (slice_ < indices.slices)
        along = _along_channels if axis == rank - 1 else _along_pixels
        with kernel.when(within):
            for selected, update in along((indices, updates, target), axis, at, slice_):
                updated = apply_reduction(attributes.reduction, value, update)
                kernel.set(value, where(selected, updated, value))
        target.store(pixel, slice_, value)


def _along_pixels(
    views: tuple[View, View, View], axis: int, at: list[Expression], slice_: Expression
) -> Iterator[tuple[Expression, Expression]]:
    """Yield, for four lines at once, which of them an index selects and their updates."""
    indices, updates, target = views
    kernel = target.kernel
    with kernel.loop(indices.axis(axis), title="j") as j:
        coordinates = [j if number == axis else position for number, position in enumerate(at)]
        index_pixel = kernel.let(indices.pixel(coordinates), "there")
        index = wrap_index(target, axis, indices.load(index_pixel, slice_))
        # Lanes beyond the last channel hold zeros, which would be valid indices.
        index = mask_beyond(indices, index, slice_, const(-1, "int", 4))
        selected = kernel.let(index.equals(widen(at[axis], 4)), "meant")
        yield selected, updates.load(index_pixel, slice_)


def _along_channels(
    views: tuple[View, View, View], axis: int, at: list[Expression], slice_: Expression
) -> Iterator[tuple[Expression, Expression]]:
    """Yield, for four elements of one line, which of them an index selects and its update."""
    indices, updates, target = views
    kernel = target.kernel
    index_pixel = kernel.let(indices.pixel(at), "there")
    with kernel.loop(indices.channels, title="j") as j:
        index = wrap_index(target, axis, indices.element(index_pixel, j))
        yield (
            matching_lanes(index, slice_),
            widen(kernel.let(updates.element(index_pixel, j), "update"), 4),
        )


OP = Op(
    name="scatter_elements",
    attributes=ScatterElements,
    infer=infer,
    reference=reference,
    indices=valid_indices,
    variants=(Variant("ask", build),),
    cases=(
        # Indices from -size to size - 1. The order of updates to one element is undefined, so cases
        # without a reduction have one index each.
        Case(("f32[7]", "i32[1]", "f32[1]"), ScatterElements(), low=-7, high=6),
        Case(("f32[7,5]", "i64[1,3]", "f32[1,3]"), ScatterElements(), low=-7, high=6),
        Case(("f32[5,3]", "i32[4,2]", "f32[4,2]"), ScatterElements(0, "add"), low=-5, high=4),
        Case(("f32[3,11]", "i32[2,7]", "f32[2,7]"), ScatterElements(1, "mul"), low=-11, high=10),
        Case(
            ("f32[2,5,7,13]", "i32[2,3,7,5]", "f32[2,3,7,5]"),
            ScatterElements(2, "max"),
            low=-7,
            high=6,
        ),
        Case(("i32[2,5,8]", "i32[2,7,8]", "i32[2,7,8]"), ScatterElements(1, "min"), low=-5, high=4),
        Case(
            ("f32[3,5]", "i32[3,4]", "f32[3,4]"),
            ScatterElements(1, "add"),
            constants=(1,),
            low=0,
            high=4,
        ),
    ),
)

"""Indices that a kernel reads from a tensor, and the updates they point to."""

from __future__ import annotations

from fourfold.codegen.expression import Expression, maximum, minimum, vector, where
from fourfold.codegen.view import View


def wrap_index(view: View, axis: int, index: Expression) -> Expression:
    """Return an index along an axis. A negative one counts from the end."""
    kernel, last = view.kernel, axis == view.type.rank - 1
    position = kernel.let(index, "index")
    size = view.channels if last else view.axis(axis)
    return kernel.let(where(position < 0, position + size, position), "index")


def matching_lanes(channel: Expression, slice_: Expression) -> Expression:
    """Return a mask of the lane, of the four channels of a slice, that holds `channel`."""
    return vector(*(channel.equals(slice_ * 4 + lane) for lane in range(4)))


def update_pixel_of(
    indices: View, updates: View, row: Expression, others: list[Expression]
) -> Expression:
    """Return the pixel in the updates for a row of indices, at `others` along the other axes."""
    pixel = row
    for axis, at in zip(range(indices.type.rank - 1, updates.type.rank - 1), others, strict=True):
        pixel = pixel * updates.axis(axis) + at
    return pixel


def apply_reduction(reduction: str, before: Expression, update: Expression) -> Expression:
    """Return the new value of an element after an update."""
    if reduction == "none":
        return update
    if reduction in ("max", "min"):
        return (maximum if reduction == "max" else minimum)(before, update)
    return before + update if reduction == "add" else before * update

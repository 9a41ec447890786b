"""Indices that a kernel finds in a tensor, and updates that they lead to."""

from __future__ import annotations

from fourfold.kernel.expression import Expression, maximum, minimum, vector, where
from fourfold.kernel.view import View


def from_end(view: View, axis: int, index: Expression) -> Expression:
    """An index along an axis; one below zero counts from the end."""
    kernel, last = view.kernel, axis == view.type.rank - 1
    found = kernel.let(index, "index")
    size = view.channels if last else view.axis(axis)
    return kernel.let(where(found < 0, found + size, found), "index")


def lanes_of(channel: Expression, slice_: Expression) -> Expression:
    """Which of the four channels of a slice an index means."""
    return vector(*(channel.equals(slice_ * 4 + lane) for lane in range(4)))


def place_of(indices: View, updates: View, row: Expression, rest: list[Expression]) -> Expression:
    """The pixel of the updates of a row of indices, at places along the axes that it leaves."""
    place = row
    for axis, at in zip(range(indices.type.rank - 1, updates.type.rank - 1), rest, strict=True):
        place = place * updates.axis(axis) + at
    return place


def combined(reduction: str, before: Expression, update: Expression) -> Expression:
    """What becomes of an element that an update meets."""
    if reduction == "none":
        return update
    if reduction in ("max", "min"):
        return (maximum if reduction == "max" else minimum)(before, update)
    return before + update if reduction == "add" else before * update

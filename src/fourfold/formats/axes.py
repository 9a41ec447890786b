"""Axes of a value as files have them: they may count from the end."""

from __future__ import annotations

from fourfold.types import Shape


def axis_of(axis: int, rank: int) -> int:
    """A non-negative axis."""
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is not one of {rank} axes")
    return axis % rank


def axes_of(axes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Non-negative axes in ascending order, each once."""
    found = tuple(sorted({axis_of(axis, rank) for axis in axes}))
    if len(found) != len(axes):
        raise ValueError(f"axes {list(axes)} name one axis twice")
    return found


def last_order(axis: int, rank: int) -> Shape:
    """The permutation that brings an axis to the end; the others stay in their order."""
    return (*(other for other in range(rank) if other != axis), axis)


def inverse_order(order: Shape) -> Shape:
    """The permutation that takes another one back."""
    return tuple(order.index(axis) for axis in range(len(order)))

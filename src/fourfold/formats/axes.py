"""Normalizes axes, which model files may count from the end, and applies ops along any axis."""

from __future__ import annotations

from fourfold.formats.operator_nodes import OperatorNodes
from fourfold.graph import NONE
from fourfold.ops.transpose import Transpose
from fourfold.types import Shape


def axis_of(axis: int, rank: int) -> int:
    """Return the axis as a non-negative number."""
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is not one of {rank} axes")
    return axis % rank


def axes_of(axes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Return non-negative axes in ascending order; an axis given twice is an error."""
    normalized = tuple(sorted({axis_of(axis, rank) for axis in axes}))
    if len(normalized) != len(axes):
        raise ValueError(f"axes {list(axes)} name one axis twice")
    return normalized


def last_order(axis: int, rank: int) -> Shape:
    """Return the permutation that moves an axis to the end and keeps the order of the others."""
    return (*(other for other in range(rank) if other != axis), axis)


def inverse_order(order: Shape) -> Shape:
    """Return the inverse of a permutation."""
    return tuple(order.index(axis) for axis in range(len(order)))


def give_along(
    nodes: OperatorNodes, op: str, value: str, axis: int, attributes: object = NONE
) -> None:
    """Write the output of an op along an axis, which is transposed to the end if needed."""
    order = last_order(axis, nodes.type_of(value).rank)
    last = nodes.transposed(value, order, "last")
    if last == value:
        nodes.give(op, value, attributes=attributes)
        return
    result = nodes.add(op, last, attributes=attributes, part="result")
    nodes.give("transpose", result, attributes=Transpose(inverse_order(order)))

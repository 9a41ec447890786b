"""Ops that work along the last axis, for files that have them along any."""

from __future__ import annotations

from fourfold.formats.operator_nodes import OperatorNodes
from fourfold.graph import NONE
from fourfold.ops.transpose import Transpose


def give_along(
    nodes: OperatorNodes, op: str, value: str, axis: int, attributes: object = NONE
) -> None:
    """The output of an op along an axis: between two transposes where it is not the last one."""
    rank = nodes.type_of(value).rank
    if axis == rank - 1:
        nodes.give(op, value, attributes=attributes)
        return
    order = (*(i for i in range(rank) if i != axis), axis)
    back = tuple(order.index(i) for i in range(rank))
    last = nodes.add("transpose", value, attributes=Transpose(order), part="last")
    result = nodes.add(op, last, attributes=attributes, part="result")
    nodes.give("transpose", result, attributes=Transpose(back))

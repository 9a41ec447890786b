"""Applies ops that work along the last axis to any axis."""

from __future__ import annotations

from fourfold.formats.axes import inverse_order, last_order
from fourfold.formats.operator_nodes import OperatorNodes
from fourfold.graph import NONE
from fourfold.ops.transpose import Transpose


def give_along(
    nodes: OperatorNodes, op: str, value: str, axis: int, attributes: object = NONE
) -> None:
    """Write the output of an op along an axis; other axes than the last are transposed there and
    back.
    """
    order = last_order(axis, nodes.type_of(value).rank)
    last = nodes.transposed(value, order, "last")
    if last == value:
        nodes.give(op, value, attributes=attributes)
        return
    result = nodes.add(op, last, attributes=attributes, part="result")
    nodes.give("transpose", result, attributes=Transpose(inverse_order(order)))

"""Small questions that passes ask of a graph when they look for a pattern."""

from __future__ import annotations

from fourfold.graph import Graph, Node


def made_by(graph: Graph, name: str | None, *ops: str) -> Node | None:
    """The node that computes the value, if it is one of these ops and has no tail."""
    node = None if name is None else graph.producers.get(name)
    return node if node is not None and node.op in ops and not node.tail else None


def constant_number(graph: Graph, name: str | None) -> float | None:
    """The number that a constant holds everywhere; None if it is no such constant."""
    array = None if name is None else graph.constants.get(name)
    if array is None or not array.size or not (array == array.flat[0]).all():
        return None
    return float(array.flat[0])


def orders(node: Node) -> tuple[tuple[str | None, str | None], ...]:
    """The two inputs, and the two the other way round."""
    left, right = node.inputs
    return (left, right), (right, left)

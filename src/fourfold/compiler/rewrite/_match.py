"""Helpers with which passes match patterns in a graph."""

from __future__ import annotations

from fourfold.graph import Graph, Node


def find_producer(graph: Graph, name: str | None, *ops: str) -> Node | None:
    """Return the node that computes the value, if it has one of these ops and no tail."""
    node = None if name is None else graph.producers.get(name)
    return node if node is not None and node.op in ops and not node.tail else None


def constant_number(graph: Graph, name: str | None) -> float | None:
    """Return the number that all elements of a constant have; None otherwise."""
    array = None if name is None else graph.constants.get(name)
    if array is None or not array.size or not (array == array.flat[0]).all():
        return None
    return float(array.flat[0])


def both_orders(node: Node) -> tuple[tuple[str | None, str | None], ...]:
    """Return the two inputs in both orders."""
    left, right = node.inputs
    return (left, right), (right, left)

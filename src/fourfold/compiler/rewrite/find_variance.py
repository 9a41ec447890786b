"""d = squared_difference(x, m); y = mean(d)  ->  y = variance(x, m), if no other node reads d."""

from __future__ import annotations

from dataclasses import replace

from fourfold.compiler.rewrite._match import find_producer
from fourfold.graph import Graph, Node


def find_variance(graph: Graph) -> Graph:
    return graph.with_nodes(tuple(_find(graph, node) or node for node in graph.nodes))


def _find(graph: Graph, node: Node) -> Node | None:
    if node.op != "mean" or node.tail:
        return None
    squares = str(node.inputs[0])
    if len(graph.readers[squares]) > 1 or graph.is_output(squares):
        return None
    for x, middle in _differences(graph, squares):
        if graph.types[x] == graph.types[squares]:
            return replace(node, op="variance", inputs=(x, middle))
    return None


def _differences(graph: Graph, squares: str) -> list[tuple[str, str]]:
    """Return the two values whose difference was squared, in both orders."""
    node = find_producer(graph, squares, "squared_difference", "square", "mul")
    if node is not None and node.op != "squared_difference":
        first, same = node.inputs[0], all(name == node.inputs[0] for name in node.inputs)
        node = find_producer(graph, first, "sub") if same else None
    if node is None:
        return []
    left, right = map(str, node.inputs)
    return [(left, right), (right, left)]

"""e = exp(x - max(x)); y = e / sum(e)  ->  y = softmax(x) over the last axis; max is optional."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fourfold.compiler.rewrite._match import find_producer
from fourfold.graph import Graph, Node
from fourfold.ops.softmax import Softmax


def find_softmax(graph: Graph) -> Graph:
    return graph.with_nodes(tuple(_find(graph, node) or node for node in graph.nodes))


def _find(graph: Graph, node: Node) -> Node | None:
    if node.op != "div" or node.tail:
        return None
    power = find_producer(graph, node.inputs[0], "exp")
    total = find_producer(graph, node.inputs[1], "sum")
    if power is None or total is None or not _is_over_channels(graph, total, power.outputs[0]):
        return None
    source = power.inputs[0]
    difference = find_producer(graph, source, "sub")
    largest = (
        None if difference is None else find_producer(graph, difference.inputs[1], "reduce_max")
    )
    if difference is not None and largest is not None:
        first = str(difference.inputs[0])
        source = first if _is_over_channels(graph, largest, first) else source
    return replace(node, op="softmax", inputs=(source,), attributes=Softmax())


def _is_over_channels(graph: Graph, node: Node, name: str) -> bool:
    """Return whether the node reduces the value along its last axis and keeps that axis."""
    attributes: Any = node.attributes
    last = (graph.types[name].rank - 1,)
    return bool(node.inputs[0] == name and attributes.axes == last and attributes.keep_dims)

"""input x: f32[1,3,9,9]; y = transpose(x)  ->  y = planes(x), where that brings the channels last.

Who reads y can then read x itself: a transpose has a kernel of its own.
"""

from __future__ import annotations

from dataclasses import replace

from fourfold.graph import NONE, Graph, Node
from fourfold.ops.transpose import Transpose


def read_planes(graph: Graph) -> Graph:
    nodes = (_as_planes(graph, node) for node in graph.nodes)
    return graph.with_nodes(tuple(nodes))


def _as_planes(graph: Graph, node: Node) -> Node:
    attributes, name = node.attributes, node.inputs[0] if node.inputs else None
    if not isinstance(attributes, Transpose) or node.tail or name not in graph.inputs:
        return node
    rank = len(attributes.permutation)
    if rank < 3 or attributes.permutation != (0, *range(2, rank), 1):
        return node
    return replace(node, op="planes", attributes=NONE)

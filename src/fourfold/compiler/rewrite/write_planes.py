"""y = transpose(x); output y: f32[1,3,9,9]  ->  y = pixels_to_planes(x), if y has channels first.

The producer of x can then write y directly, whereas a transpose needs a kernel. No other node may
read x, nor what x is a view of: with four or more channels, kernels prefer pixels with adjacent
channels.
"""

from __future__ import annotations

from dataclasses import replace

from fourfold.graph import NONE, Graph, Node
from fourfold.ops.base import registry
from fourfold.ops.transpose import Transpose

SLICE = 4  # channels that kernels read at once


def write_planes(graph: Graph) -> Graph:
    nodes = (_as_planes(graph, node) for node in graph.nodes)
    return graph.with_nodes(tuple(nodes))


def _as_planes(graph: Graph, node: Node) -> Node:
    attributes = node.attributes
    if not isinstance(attributes, Transpose) or node.tail or not graph.is_output(node.outputs[0]):
        return node
    rank = len(attributes.permutation)
    if rank < 3 or attributes.permutation != (0, rank - 1, *range(1, rank - 1)):
        return node
    if not _may_be_planes(graph, str(node.inputs[0])):
        return node
    return replace(node, op="pixels_to_planes", attributes=NONE)


def _may_be_planes(graph: Graph, name: str) -> bool:
    """Return whether a value is computed and no other reader prefers pixels, also for views."""
    pending, seen = [name], {name}
    while pending:
        part = pending.pop()
        maker = graph.producers.get(part)
        if maker is None or graph.is_output(part):
            return False
        if len(graph.readers[part]) > 1 and graph.types[part].channels >= SLICE:
            return False
        if not maker.tail and registry()[maker.op].view is not None:
            pending += [read for read in maker.reads if read not in seen]
            seen.update(maker.reads)
    return True

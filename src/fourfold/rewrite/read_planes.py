"""input x: f32[1,3,9,9]; y = transpose(x)  ->  y = planes_to_pixels(x), if channels come last in y.

Who reads y can then read x itself: a transpose has a kernel of its own. Several images, and more
channels than a kernel reads at once, are worth a transpose where readers look at a pixel many times
and are written for channels that lie together.
"""

from __future__ import annotations

from dataclasses import replace

from fourfold.graph import NONE, Graph, Node
from fourfold.op.registry import registry
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.transpose import Transpose

SLICE = 4  # channels that kernels read at once
MOVES = ("concat", "pad")  # that look at each element once


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
    images, channels = graph.types[str(name)].shape[:2]
    readers = graph.readers.get(node.outputs[0], ())
    if (images > 1 or channels >= SLICE) and not all(map(_takes_planes, readers)):
        return node
    return replace(node, op="planes_to_pixels", attributes=NONE)


def _takes_planes(reader: Node) -> bool:
    """Whether a node reads planes, however many, as fast as it reads pixels."""
    if isinstance(reader.attributes, Conv2d):
        return reader.attributes.groups == 1
    return reader.op in MOVES or registry()[reader.op].pointwise is not None

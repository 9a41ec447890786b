"""y = average_pool2d(x) with a window as large as the image  ->  y = mean(x) over its pixels."""

from __future__ import annotations

from dataclasses import replace

from fourfold.graph import Graph, Node
from fourfold.ops.base.rules import Reduce
from fourfold.ops.base.window import NO_PADDING, Pool2d

PIXELS = Reduce(axes=(1, 2), keep_dims=True)


def find_mean(graph: Graph) -> Graph:
    return graph.with_nodes(tuple(_find(graph, node) or node for node in graph.nodes))


def _find(graph: Graph, node: Node) -> Node | None:
    attributes = node.attributes
    if node.op != "average_pool2d" or not isinstance(attributes, Pool2d):
        return None
    covers_image = attributes.filter == graph.types[str(node.inputs[0])].shape[1:3]
    if not covers_image or attributes.padding != NO_PADDING:
        return None
    return replace(node, op="mean", attributes=PIXELS)

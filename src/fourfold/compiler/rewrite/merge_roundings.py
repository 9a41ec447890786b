"""y = fake_quantize(x); z = quantize(y)  ->  z = quantize(x), when both have the same grid.

The narrower of their limits apply. Other readers of y still read it.
"""

from __future__ import annotations

from dataclasses import replace

from fourfold.graph import Graph, Node
from fourfold.ops.fake_quantize import FakeQuantize
from fourfold.ops.quantize import Quantize


def merge_roundings(graph: Graph) -> Graph:
    nodes = tuple(_merged(graph, node) for node in graph.nodes)
    read = {name for node in nodes for name in node.reads} | {*graph.outputs}
    return graph.with_nodes(tuple(n for n in nodes if not _is_unread(n, read)))


def _merged(graph: Graph, node: Node) -> Node:
    after = node.attributes
    source = graph.producers.get(str(node.inputs[0])) if isinstance(after, Quantize) else None
    if source is None or source.tail or len(graph.readers[source.outputs[0]]) > 1:
        return node
    before = source.attributes
    assert isinstance(after, Quantize)
    if not isinstance(before, FakeQuantize) or before.distance != after.scale:
        return node
    low, high = max(before.low, after.low), min(before.high, after.high)
    if low > high or graph.is_output(source.outputs[0]):
        return node
    merged = replace(after, scale=before.scale, low=low, high=high, pivot=before.pivot)
    return replace(node, inputs=source.inputs, attributes=merged)


def _is_unread(node: Node, read: set[str]) -> bool:
    """Return whether a rounding is no longer read."""
    return isinstance(node.attributes, FakeQuantize) and read.isdisjoint(node.outputs)

"""y = conv2d(x; padding)  ->  p = pad(x); y = conv2d(p), for devices on which an edge is dear.

A CPU's work-item reads a run of pixels under one filter tap after the other. Where some of them may
lie outside, each must be asked for; a copy with zeros around it costs far less than the asking.
"""

from __future__ import annotations

from dataclasses import replace

from fourfold.device import DeviceInfo
from fourfold.graph import Graph, Node
from fourfold.ops._window import NO_PADDING, Padding
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.pad import Pad
from fourfold.types import TensorType

WIDEST = 128  # beyond it few pixels of a row are near an edge


def pad_windows(graph: Graph, device: DeviceInfo) -> Graph:
    """The same graph, with a pad before convolutions that would meet many edges."""
    if not device.is_cpu:
        return graph
    nodes: list[Node] = []
    types = dict(graph.types)
    padded: dict[tuple[str, Padding], str] = {}
    for node in graph.nodes:
        if not _meets_edges(graph, node):
            nodes.append(node)
            continue
        assert isinstance(node.attributes, Conv2d)
        source, padding = str(node.inputs[0]), node.attributes.padding
        if (source, padding) not in padded:
            nodes.append(_pad(source, padding, types))
            padded[source, padding] = nodes[-1].outputs[0]
        inputs = (padded[source, padding], *node.inputs[1:])
        attributes = replace(node.attributes, padding=NO_PADDING)
        nodes.append(replace(node, inputs=inputs, attributes=attributes))
    return graph if len(nodes) == len(graph.nodes) else graph.with_nodes(tuple(nodes), types=types)


def _meets_edges(graph: Graph, node: Node) -> bool:
    if not isinstance(node.attributes, Conv2d) or node.attributes.padding == NO_PADDING:
        return False
    source, weights, output = (
        graph.types[str(name)] for name in (*node.inputs[:2], node.outputs[0])
    )
    several = weights.shape[1] * weights.shape[2] > 1
    plain = node.attributes.groups == 1 and graph.is_constant(node.inputs[1])
    return several and plain and source.channels >= 4 and output.shape[2] <= WIDEST


def _pad(source: str, padding: Padding, types: dict[str, TensorType]) -> Node:
    name = f"{source}/padded"
    while name in types:
        name += "_"
    before, after = (0, padding.top, padding.left, 0), (0, padding.bottom, padding.right, 0)
    sizes = zip(types[source].shape, before, after, strict=True)
    types[name] = types[source].with_shape(*(sum(parts) for parts in sizes))
    return Node("pad", (source,), (name,), Pad(before, after), name=name)

"""y = pad(x); z = transpose(y)  ->  y = transpose(x); z = pad(y), when nothing else reads y.

The transpose may then cancel one that an exporter put before the pad, and the pad may merge with a
conv2d.
"""

from __future__ import annotations

from dataclasses import replace

from fourfold.graph import Graph, Node
from fourfold.ops.pad import Pad
from fourfold.ops.transpose import Transpose
from fourfold.types import TensorType


def hoist_transposes(graph: Graph) -> Graph:
    types = dict(graph.types)
    nodes: dict[str, Node] = {}
    for node in graph.nodes:
        nodes[node.outputs[0]] = node
        while True:
            pad = _pad_before(graph, node, nodes)
            if pad is None:
                break
            node = _exchange(pad, node, types, nodes)
    return graph.with_nodes(tuple(nodes.values()), types=types)


def _pad_before(graph: Graph, node: Node, nodes: dict[str, Node]) -> Node | None:
    """Return the pad that only this transpose reads."""
    source = node.inputs[0] if node.op == "transpose" and not node.tail else None
    pad = None if source is None else nodes.get(source)
    if pad is None or pad.op != "pad" or pad.tail or graph.is_output(pad.outputs[0]):
        return None
    return pad if len(graph.readers[pad.outputs[0]]) == 1 else None


def _exchange(
    pad: Node, transpose: Node, types: dict[str, TensorType], nodes: dict[str, Node]
) -> Node:
    """Swap the two nodes; return the transpose."""
    assert isinstance(pad.attributes, Pad)
    assert isinstance(transpose.attributes, Transpose)
    order, between = transpose.attributes.permutation, pad.outputs[0]
    source = types[str(pad.inputs[0])]
    before = tuple(pad.attributes.before[axis] for axis in order)
    after = tuple(pad.attributes.after[axis] for axis in order)
    types[between] = source.with_shape(*(source.shape[axis] for axis in order))
    nodes[between] = replace(transpose, inputs=pad.inputs, outputs=(between,))
    attributes = Pad(before, after, pad.attributes.value)
    result = transpose.outputs[0]
    nodes[result] = replace(pad, inputs=(between,), outputs=(result,), attributes=attributes)
    return nodes[between]

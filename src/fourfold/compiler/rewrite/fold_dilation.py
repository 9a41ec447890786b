"""a = space_to_batch(x); b = conv2d(a); y = batch_to_space(b)  ->  y = conv2d(x; dilation).

TensorFlow writes dilated convolutions this way. Pointwise ops may follow the convolution, if they
treat all pixels alike.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fourfold.errors import ModelError
from fourfold.graph import Graph, Node
from fourfold.ops.base import registry
from fourfold.ops.base.window import NO_PADDING, Padding
from fourfold.ops.batch_to_space import BatchToSpace
from fourfold.ops.space_to_batch import SpaceToBatch
from fourfold.types import TensorType

_CONVOLUTIONS = ("conv2d", "depthwise_conv2d")
_IMAGE_AXES = 2


def fold_dilation(graph: Graph) -> Graph:
    types = dict(graph.types)
    changed: dict[str, Node | None] = {}
    for node in graph.nodes:
        if node.op == "batch_to_space" and not node.tail:
            changed.update(_fold(graph, node, types))
    if not changed:
        return graph
    nodes = (changed.get(node.outputs[0], node) for node in graph.nodes)
    return graph.with_nodes(tuple(node for node in nodes if node is not None), types=types)


def _fold(graph: Graph, last: Node, types: dict[str, TensorType]) -> dict[str, Node | None]:
    """Return the changed nodes by the value they wrote before; None for removed nodes."""
    chain = _chain(graph, last)
    if chain is None:
        return {}
    first, convolution, *others = chain
    attributes = _dilated(first.attributes, convolution.attributes, last.attributes)
    if attributes is None:
        return {}
    inputs = (first.inputs[0], *convolution.inputs[1:])
    nodes = [replace(convolution, inputs=inputs, attributes=attributes), *others]
    nodes[-1] = replace(nodes[-1], outputs=last.outputs)
    new_types = _infer(graph, nodes)
    if new_types is None or new_types[last.outputs[0]] != graph.types[last.outputs[0]]:
        return {}
    types.update(new_types)
    old = (convolution, *others)
    pairs = {before.outputs[0]: after for before, after in zip(old, nodes, strict=True)}
    return {first.outputs[0]: None, **pairs, last.outputs[0]: None}


def _chain(graph: Graph, last: Node) -> list[Node] | None:
    """Return the nodes from space_to_batch up to batch_to_space, each read only by the next one."""
    nodes: list[Node] = []
    reader = last
    while not nodes or nodes[0].op != "space_to_batch":
        name = str(reader.inputs[0])
        node = graph.producers.get(name)
        if node is None or node.tail or graph.is_output(name) or len(graph.readers[name]) > 1:
            return None
        after_convolution = bool(nodes) and nodes[0].op in _CONVOLUTIONS
        if after_convolution != (node.op == "space_to_batch"):
            return None
        if not after_convolution and node.op not in _CONVOLUTIONS and not _is_uniform(graph, node):
            return None
        nodes.insert(0, node)
        reader = node
    return nodes


def _is_uniform(graph: Graph, node: Node) -> bool:
    """Return whether a pointwise node treats all pixels alike: its other inputs have one pixel."""
    others = [name for name in node.inputs[1:] if name is not None]
    return registry()[node.op].pointwise is not None and all(
        graph.is_constant(name) and graph.types[name].pixels == 1 for name in others
    )


def _dilated(first: object, convolution: Any, last: object) -> object | None:
    """Return the convolution's attributes for whole images, or None if padding prevents it."""
    assert isinstance(first, SpaceToBatch)
    assert isinstance(last, BatchToSpace)
    plain = convolution.stride == (1, 1) and convolution.padding == NO_PADDING
    if not plain or first.block != last.block or len(first.block) > _IMAGE_AXES:
        return None
    missing = _IMAGE_AXES - len(first.block)
    block = (*first.block, *(1,) * missing)
    before = [pad - cut for pad, cut in zip(first.before, last.before, strict=True)]
    after = [pad - cut for pad, cut in zip(first.after, last.after, strict=True)]
    if min(*before, *after) < 0:
        return None
    (top, left), (bottom, right) = (*before, *[0] * missing), (*after, *[0] * missing)
    dilation = (convolution.dilation[0] * block[0], convolution.dilation[1] * block[1])
    wider: object = replace(
        convolution, dilation=dilation, padding=Padding(top, bottom, left, right)
    )
    return wider


def _infer(graph: Graph, nodes: list[Node]) -> dict[str, TensorType] | None:
    """Return the types of what the new nodes write; None if one of them is invalid."""
    new_types: dict[str, TensorType] = {}
    all_types = dict(graph.types)
    running = str(nodes[0].inputs[0])
    for node in nodes:
        names = (running, *node.inputs[1:])
        types = [None if name is None else all_types[name] for name in names]
        try:
            (result,) = registry()[node.op].infer(node.attributes, *types)
        except ModelError:
            return None
        running = node.outputs[0]
        all_types[running] = new_types[running] = result
    return new_types

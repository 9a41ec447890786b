"""y = f(transpose_conv2d(x)), strides as its filter  ->  y = depth_to_space(f(conv2d(x))), 1x1.

If no two filters overlap, each input pixel produces a separate block of output pixels. f stands for
pointwise nodes without other inputs.
"""

from __future__ import annotations

import numpy as np

from fourfold.compiler.rewrite._names import PassConstants
from fourfold.graph import Graph, Node
from fourfold.ops.base import registry
from fourfold.ops.base.window import NO_PADDING
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.kernels.move import Block
from fourfold.ops.transpose_conv2d import TransposeConv2d


def split_transposed(graph: Graph) -> Graph:
    constants = PassConstants(graph)
    split: dict[str, list[Node]] = {}
    gone: set[str] = set()
    for node in graph.nodes:
        if _can_split(graph, node):
            behind = _following_pointwise(graph, node)
            gone.update(other.outputs[0] for other in (node, *behind[:-1]) if behind)
            split[(behind or [node])[-1].outputs[0]] = _split(graph, node, behind, constants)
    nodes: list[Node] = []
    for node in graph.nodes:
        name = node.outputs[0]
        nodes += split.get(name, [] if name in gone else [node])
    return constants.apply(nodes)


def _can_split(graph: Graph, node: Node) -> bool:
    attributes = node.attributes
    if not isinstance(attributes, TransposeConv2d) or node.tail:
        return False
    weights = [name for name in node.inputs[1:] if name is not None]
    if any(not graph.is_constant(name) or name in graph.quantization for name in weights):
        return False
    block = graph.types[weights[0]].shape[1:3]
    height, width = graph.types[str(node.inputs[0])].shape[1:3]
    return (
        block[0] == block[1] > 1
        and attributes.stride == block
        and attributes.padding == NO_PADDING
        and attributes.size == (height * block[0], width * block[0])
    )


def _following_pointwise(graph: Graph, node: Node) -> list[Node]:
    """Return the chain of pointwise nodes that read only the result."""
    followers: list[Node] = []
    while not graph.is_output(node.outputs[0]) and len(graph.readers[node.outputs[0]]) == 1:
        (node,) = graph.readers[node.outputs[0]]
        op = registry()[node.op]
        if len(node.inputs) > 1 or node.tail or op.pointwise is None or op.view is not None:
            break
        followers.append(node)
    return followers


def _split(graph: Graph, node: Node, behind: list[Node], constants: PassConstants) -> list[Node]:
    source, weights, bias = (*node.inputs, None)[:3]
    assert source is not None
    assert weights is not None
    filters = constants[weights]
    outputs, block, _, inputs = filters.shape
    flat = filters.transpose(1, 2, 0, 3).reshape(-1, 1, 1, inputs)
    reads = [source, constants.add(f"{weights}/blocks", np.ascontiguousarray(flat))]
    if bias is not None:
        reads.append(constants.add(f"{bias}/blocks", np.tile(constants[bias], block * block)))
    last = (behind or [node])[-1].outputs[0]
    shape = (*graph.types[source].shape[:3], block * block * outputs)
    value, nodes = "", []
    for old in (node, *behind):
        type_ = graph.types[old.outputs[0]].with_shape(*shape)
        name = constants.declare(f"{old.outputs[0]}/blocks", type_)
        if old is node:
            nodes.append(Node("conv2d", tuple(reads), (name,), Conv2d(), name=node.name))
        else:
            nodes.append(Node(old.op, (value,), (name,), old.attributes, name=old.name))
        value = name
    nodes.append(Node("depth_to_space", (value,), (last,), Block(block), name=node.name))
    return nodes

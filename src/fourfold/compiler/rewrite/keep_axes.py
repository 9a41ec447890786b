"""y = mean(x; axes)  ->  t = mean(x; axes, keep_dims); y = reshape(t), for every reduction.

Kernels then have inputs and outputs of the same rank, and the reshape costs nothing.
"""

from __future__ import annotations

from dataclasses import replace

from fourfold.graph import Graph, Node
from fourfold.ops.arg_max import ArgMax
from fourfold.ops.base import registry
from fourfold.ops.base.rules import Reduce
from fourfold.ops.reshape import Reshape
from fourfold.types import TensorType


def keep_axes(graph: Graph) -> Graph:
    """Make reductions keep axes of size 1, and drop these with a reshape."""
    nodes: list[Node] = []
    types = dict(graph.types)
    for node in graph.nodes:
        attributes = node.attributes
        if isinstance(attributes, Reduce | ArgMax) and not attributes.keep_dims and not node.tail:
            nodes += _with_kept_axes(graph, node, attributes, types)
        else:
            nodes.append(node)
    if len(nodes) == len(graph.nodes):
        return graph
    return graph.with_nodes(tuple(nodes), types=types)


def _with_kept_axes(
    graph: Graph, node: Node, attributes: Reduce | ArgMax, types: dict[str, TensorType]
) -> list[Node]:
    output = node.outputs[0]
    kept = replace(attributes, keep_dims=True)
    inner = f"{output}/kept"
    while inner in types:
        inner += "_"
    types[inner] = registry()[node.op].infer(kept, *graph.input_types(node))[0]
    shape = Reshape(graph.types[output].shape)
    return [
        replace(node, attributes=kept, outputs=(inner,)),
        Node("reshape", (inner,), (output,), shape, name=node.name),
    ]

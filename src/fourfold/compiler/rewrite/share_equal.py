"""y = f(x); z = f(x); u = g(y, z)  ->  y = f(x); u = g(y, y), also for small constants."""

from __future__ import annotations

from collections.abc import Hashable

from fourfold.compiler.rewrite._names import Names
from fourfold.graph import Graph, Node

MAX_COMPARED_BYTES = 4096  # exporters repeat small constants, but hardly ever weights


def share_equal(graph: Graph) -> Graph:
    names = Names(graph)
    first: dict[Hashable, Node] = {}
    same = _equal_constants(graph)
    nodes = []
    for node in graph.nodes:
        earlier = first.setdefault(_key(graph, node, same), node)
        if earlier is node or len(node.outputs) > 1:
            nodes.append(node)
            continue
        same[node.outputs[0]] = earlier.outputs[0]
        # If both are outputs of the graph, both nodes have to stay.
        if not names.equal(node.outputs[0], earlier.outputs[0]):
            nodes.append(node)
    return names.apply(nodes)


def _equal_constants(graph: Graph) -> dict[str, str]:
    """Map each small constant to the first one with the same content."""
    first: dict[Hashable, str] = {}
    same = {}
    for name, array in graph.constants.items():
        if array.nbytes <= MAX_COMPARED_BYTES:
            type_ = graph.types[name]
            same[name] = first.setdefault((type_, array.tobytes()), name)
    return same


def _key(graph: Graph, node: Node, same: dict[str, str]) -> Hashable:
    """Return a key that is equal for nodes that compute the same with the same quantization."""
    inputs = tuple(name and same.get(name, name) for name in node.inputs)
    tail = tuple(
        (step.op, step.attributes, tuple(name and same.get(name, name) for name in step.inputs))
        for step in node.tail
    )
    quantization = tuple(graph.quantization.get(name) for name in node.outputs)
    return node.op, node.attributes, inputs, tail, quantization

"""y = reshape(x); z = reshape(y)  ->  z = reshape(x), or x if that is its shape; so for transposes.

What only moves or removes axes of size one is a reshape: a transpose, or a sum over such axes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fourfold.graph import Graph, Node
from fourfold.ops.reshape import Reshape
from fourfold.ops.transpose import Transpose
from fourfold.rewrite._names import Names
from fourfold.types import Shape

# With as many results as inputs, each of these keeps every element in its place.
_REDUCE = frozenset({"mean", "reduce_max", "reduce_min", "sum"})


def merge_reshapes(graph: Graph) -> Graph:
    names = Names(graph)
    made: dict[str, Node] = {}
    nodes = []
    for node in graph.nodes:
        if node.tail or node.op not in {"reshape", "transpose", *_REDUCE}:
            nodes.append(node)
            continue
        merged = _as_reshape(graph, _merge(_as_reshape(graph, node), made))
        merged = _merge(merged, made)  # transposes may have left a reshape behind a reshape
        output, source = merged.outputs[0], str(merged.inputs[0])
        if not _changes_nothing(graph, merged) or not names.equal(output, source):
            nodes.append(merged)
            made[output] = merged
        elif source in made:
            made[output] = made[source]
    return names.apply(nodes)


def _merge(node: Node, made: Mapping[str, Node]) -> Node:
    """The node, reading what the node before it reads, where the two are of a kind."""
    before = made.get(str(node.inputs[0]))
    if before is None or before.op != node.op:
        return node
    attributes = node.attributes
    if isinstance(attributes, Transpose) and isinstance(before.attributes, Transpose):
        order = tuple(before.attributes.permutation[axis] for axis in attributes.permutation)
        return replace(node, inputs=before.inputs, attributes=Transpose(order))
    return replace(node, inputs=before.inputs) if isinstance(attributes, Reshape) else node


def _as_reshape(graph: Graph, node: Node) -> Node:
    source, result = graph.types[str(node.inputs[0])], graph.types[node.outputs[0]]
    attributes = node.attributes
    if isinstance(attributes, Transpose):
        keeps = _keeps_order(attributes.permutation, source.shape)
    else:
        keeps = node.op in _REDUCE and source.elements == result.elements > 0
    return replace(node, op="reshape", attributes=Reshape(result.shape)) if keeps else node


def _keeps_order(permutation: tuple[int, ...], shape: Shape) -> bool:
    moved = [axis for axis in permutation if shape[axis] != 1]
    return moved == sorted(moved)


def _changes_nothing(graph: Graph, node: Node) -> bool:
    """A transpose that keeps the order is a reshape by now."""
    return node.op == "reshape" and graph.types[str(node.inputs[0])] == graph.types[node.outputs[0]]

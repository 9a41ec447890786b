"""y = reshape(x); z = reshape(y)  ->  z = reshape(x), or x if shapes agree; also transposes.

A node that only moves or removes axes of size 1 is a reshape: a transpose, or a sum over such axes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fourfold.compiler.rewrite._names import Names
from fourfold.graph import Graph, Node
from fourfold.ops.reshape import Reshape
from fourfold.ops.transpose import Transpose
from fourfold.types import Shape

# Ops that keep every element if the result has as many elements as the input.
_REDUCE = frozenset({"mean", "reduce_max", "reduce_min", "sum"})


def merge_reshapes(graph: Graph) -> Graph:
    names = Names(graph)
    merged_nodes: dict[str, Node] = {}
    nodes = []
    for node in graph.nodes:
        if node.tail or node.op not in {"reshape", "transpose", *_REDUCE}:
            nodes.append(node)
            continue
        merged = _as_reshape(graph, _merge(_as_reshape(graph, node), merged_nodes))
        merged = _merge(merged, merged_nodes)  # transposes may have left a reshape after a reshape
        output, source = merged.outputs[0], str(merged.inputs[0])
        if not _has_no_effect(graph, merged) or not names.equal(output, source):
            nodes.append(merged)
            merged_nodes[output] = merged
        elif source in merged_nodes:
            merged_nodes[output] = merged_nodes[source]
    return names.apply(nodes)


def _merge(node: Node, merged_nodes: Mapping[str, Node]) -> Node:
    """Return the node reading the input of the node before it, if both have the same op."""
    before = merged_nodes.get(str(node.inputs[0]))
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


def _has_no_effect(graph: Graph, node: Node) -> bool:
    """Return whether a reshape has no effect; useless transposes are reshapes by now."""
    return node.op == "reshape" and graph.types[str(node.inputs[0])] == graph.types[node.outputs[0]]

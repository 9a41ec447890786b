"""y = identity(x); z = f(y)  ->  z = f(x), for every node that returns its input.

An output of the graph keeps its name: x = f(..); y = identity(x)  ->  y = f(..). If x is an input,
a constant or another output, the node stays as a copy.
"""

from __future__ import annotations

from fourfold.compiler.rewrite._match import both_orders, constant_number
from fourfold.compiler.rewrite._names import Names
from fourfold.graph import Graph, Node
from fourfold.ops.slice import Slice
from fourfold.ops.transpose import Transpose

# Ops that do nothing if the result has the type of the input.
_BY_TYPE = frozenset(
    {
        "cast",
        "depth_to_space",
        "identity",
        "mean",
        "mirror_pad",
        "pad",
        "reduce_max",
        "reduce_min",
        "reshape",
        "resize_bilinear",
        "resize_nearest",
        "space_to_depth",
        "sum",
        "tile",
    }
)
_NEUTRAL = {"add": 0.0, "sub": 0.0, "mul": 1.0, "div": 1.0, "power": 1.0}
_COMMUTES = frozenset({"add", "mul"})


def drop_identities(graph: Graph) -> Graph:
    names = Names(graph)
    nodes = []
    for node in graph.nodes:
        source = _equal_input(graph, node)
        if source is None or not names.equal(node.outputs[0], source):
            nodes.append(node)
    return names.apply(nodes)


def _equal_input(graph: Graph, node: Node) -> str | None:
    """Return the input that the only output is equal to, if there is one."""
    if node.tail or not node.inputs or len(node.outputs) != 1:
        return None
    if node.op in _NEUTRAL:
        return _operand_of_neutral(graph, node)
    first = node.inputs[0]
    if first is None or graph.types[first] != graph.types[node.outputs[0]]:
        return None
    return first if _returns_input(node) else None


def _returns_input(node: Node) -> bool:
    """Return whether a node whose result has the type of its first input also has its elements."""
    attributes = node.attributes
    if isinstance(attributes, Transpose):
        return list(attributes.permutation) == sorted(attributes.permutation)
    if isinstance(attributes, Slice):
        # If all elements are kept, a step other than one can only mirror.
        pairs = zip(attributes.strides, attributes.size, strict=True)
        return all(stride == 1 or size == 1 for stride, size in pairs)
    return node.op in _BY_TYPE or (node.op == "concat" and len(node.inputs) == 1)


def _operand_of_neutral(graph: Graph, node: Node) -> str | None:
    for kept, other in both_orders(node)[: 2 if node.op in _COMMUTES else 1]:
        if kept is None or graph.types[kept] != graph.types[node.outputs[0]]:
            continue
        if constant_number(graph, other) == _NEUTRAL[node.op]:
            return kept
    return None

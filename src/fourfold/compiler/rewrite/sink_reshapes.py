"""b = reshape(a); y = f(b)  ->  c = f(a); y = reshape(c), if f is pointwise.

The producer of a can then take f as its tail, which a reshape cannot, as it has no kernel. If y is
reshaped back to the shape of a, neither reshape is left. All other inputs of f must be scalars, or
one number per channel if the reshape keeps the channels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fourfold.graph import Graph, Node
from fourfold.ops.base import registry
from fourfold.ops.reshape import Reshape
from fourfold.types import TensorType


def sink_reshapes(graph: Graph) -> Graph:
    types = dict(graph.types)
    nodes: dict[str, Node] = {}
    names: dict[str, str] = {}  # values that are equal to others
    sunk: set[str] = set()
    for old in graph.nodes:
        node, output = old.renamed(names), old.outputs[0]
        reshape = _reshape_before(graph, old, nodes, types)
        if reshape is not None:
            inner = _fresh(f"{output}/before", types)
            source = str(reshape.inputs[0])
            types[inner] = types[output].with_shape(*types[source].shape)
            del nodes[reshape.outputs[0]]
            nodes[inner] = node.renamed({reshape.outputs[0]: source, output: inner})
            attributes = Reshape(types[output].shape)
            nodes[output] = Node("reshape", (inner,), (output,), attributes, name=node.name)
            sunk.add(output)
        elif node.op == "reshape" and node.inputs[0] in sunk:
            source = str(nodes[str(node.inputs[0])].inputs[0])
            if types[source].shape == types[output].shape:
                names[output] = source
            else:
                nodes[output] = replace(node, inputs=(source,))
        else:
            nodes[output] = node
    read = {name for node in nodes.values() for name in node.reads} | set(graph.outputs)
    kept = (node for name, node in nodes.items() if name in read or name not in sunk)
    return graph.with_nodes(tuple(kept), types=types)


def _fresh(name: str, types: Mapping[str, TensorType]) -> str:
    while name in types:
        name += "_"
    return name


def _reshape_before(
    graph: Graph, node: Node, nodes: Mapping[str, Node], types: Mapping[str, TensorType]
) -> Node | None:
    """Return the reshape before a pointwise node, if swapping them is possible and useful."""
    op = registry()[node.op]
    if op.pointwise is None or op.view is not None or node.tail:
        return None
    readers = graph.readers.get(node.outputs[0], ())
    if any(reader.op == "reshape" and graph.is_output(reader.outputs[0]) for reader in readers):
        return None  # outputs keep their names, so a reshape would have to stay
    for name in dict.fromkeys(map(str, node.inputs)):
        reshape = nodes.get(name)
        if reshape is None or reshape.op != "reshape" or reshape.tail:
            continue
        source = str(reshape.inputs[0])
        alone = graph.readers[name] == (node,) and not graph.is_output(name)
        same = types[name].shape == types[node.outputs[0]].shape
        others = [types[str(other)] for other in node.inputs if other != name]
        fits = all(_is_by_channel(other, types[source], types[name]) for other in others)
        if alone and same and fits and _takes_tail(graph, source, reshape, nodes):
            return reshape
    return None


def _takes_tail(graph: Graph, source: str, reshape: Node, nodes: Mapping[str, Node]) -> bool:
    """Return whether a value comes from a kernel and is read only by the reshape."""
    maker = nodes.get(source)
    if maker is None or len(maker.outputs) > 1 or registry()[maker.op].view is not None:
        return False
    return not graph.is_output(source) and graph.readers.get(source, (reshape,)) == (reshape,)


def _is_by_channel(other: TensorType, before: TensorType, after: TensorType) -> bool:
    """Return whether an operand has the same meaning before and after a reshape."""
    if other.pixels != 1 or other.rank > min(before.rank, after.rank):
        return False
    return other.channels == 1 or other.channels == before.channels == after.channels

"""Layers: what stays float or not as a whole, and which nodes then compute on integers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fourfold.errors import InputError, nearest
from fourfold.graph import Graph, Node
from fourfold.quantization.method import Method
from fourfold.quantization.rules import (
    CHANNEL_AXIS,
    CLAMPING,
    FUSED_CLAMPS,
    has_constant_weights,
    is_layer,
    is_move,
    real_places,
)
from fourfold.types import LARGEST_HALF, DType

MANY_WEIGHTS = 1024
_NIBBLES = ("conv2d", "fully_connected")  # what runtimes run with weights of four bits


@dataclass(frozen=True)
class LayerNodes:
    """A node that computes, with the clamp behind it, if any; known by the value that it gives."""

    name: str
    op: str
    nodes: frozenset[str]
    title: str = ""  # of the node in its file


def find_layers(graph: Graph, method: Method) -> tuple[LayerNodes, ...]:
    """The layers that a method can change, in the order in which they run."""
    if method.values is None:
        changed = (node for node in graph.nodes if weight_places(graph, node, method))
        return tuple(_layer(node, node) for node in changed)
    found: dict[str, LayerNodes] = {}
    for node in graph.nodes:
        if not is_layer(graph, node, method.values):
            continue
        before = graph.producers.get(str(node.inputs[0]))
        if is_fused(graph, node) and before is not None and before.outputs[0] in found:
            del found[before.outputs[0]]
            found[node.outputs[0]] = _layer(before, node)
        else:
            found[node.outputs[0]] = _layer(node, node)
    return tuple(found.values())


def _layer(first: Node, last: Node) -> LayerNodes:
    nodes = frozenset((first.outputs[0], last.outputs[0]))
    return LayerNodes(last.outputs[0], first.op, nodes, first.name)


def is_fused(graph: Graph, node: Node) -> bool:
    """Whether a node clamps what a layer makes for it alone: then the two are one operator of a
    file, which rounds and clamps at once, and what is between them is not stored.
    """
    name = node.inputs[0] if node.inputs else None
    if node.op not in FUSED_CLAMPS or name is None or name in graph.outputs:
        return False
    producer = graph.producers.get(name)
    return producer is not None and producer.op in CLAMPING and len(graph.readers[name]) == 1


def fused_clamp(graph: Graph, node: Node) -> Node | None:
    """The node that clamps what this one makes, as part of the same layer."""
    readers = graph.readers.get(node.outputs[0], ())
    return readers[0] if len(readers) == 1 and is_fused(graph, readers[0]) else None


def weight_places(graph: Graph, node: Node, method: Method) -> list[int]:
    """The inputs of a node that a method for weights alone stores in another way."""
    if method.weights is DType.F16:
        places = real_places(graph, node)
        return [at for at in places if _fits_halves(graph, str(node.inputs[at]))]
    if node.op not in CHANNEL_AXIS or not has_constant_weights(graph, node):
        return []
    if method.weights is DType.I4 and node.op not in _NIBBLES:
        return []
    return [1] if graph.types[str(node.inputs[1])].elements >= MANY_WEIGHTS else []


def _fits_halves(graph: Graph, name: str) -> bool:
    array = graph.constants.get(name)
    return array is not None and array.size > 1 and bool(np.abs(array).max() <= LARGEST_HALF)


def integer_nodes(
    graph: Graph, layers: Iterable[LayerNodes], kept: Collection[str], method: Method
) -> frozenset[str]:
    """The nodes that compute on integers: the layers that are not kept, and moves beside them."""
    assert method.values is not None
    found = {name for layer in layers if layer.name not in kept for name in layer.nodes}
    moves = [node for node in graph.nodes if is_move(graph, node, method.values)]
    last = set() if method.integer_ports else _last_joins(graph, moves)
    for node in moves:
        if node.outputs[0] not in last and any(_makes(graph, name, found) for name in node.inputs):
            found.add(node.outputs[0])
    for node in reversed(moves):
        readers = graph.readers.get(node.outputs[0], ())
        if any(reader.outputs[0] in found for reader in readers):
            found.add(node.outputs[0])
    return frozenset(found)


def _last_joins(graph: Graph, moves: Sequence[Node]) -> set[str]:
    """Moves of several values behind which nothing computes: real numbers may keep their own steps
    there, and the outputs of a detector have very different ones for boxes of different sizes.
    """
    last: set[str] = set()
    for node in reversed(moves):
        readers = graph.readers.get(node.outputs[0], ())
        if all(reader.outputs[0] in last for reader in readers):
            last.add(node.outputs[0])
    joins = [node for node in moves if len(real_places(graph, node)) > 1]
    return {node.outputs[0] for node in joins if node.outputs[0] in last}


def _makes(graph: Graph, value: str | None, nodes: set[str]) -> bool:
    producer = None if value is None else graph.producers.get(value)
    return producer is not None and producer.outputs[0] in nodes


def named_layers(layers: Iterable[LayerNodes], names: Iterable[str]) -> frozenset[str]:
    """The layers that a caller names: by their value, their node, or their op."""
    found: set[str] = set()
    layers = tuple(layers)
    for name in names:
        matching = {one.name for one in layers if name in (one.name, one.title, one.op, *one.nodes)}
        if not matching:
            known = [layer.name for layer in layers]
            why = "layers are known by the value that they give, by their node, or by their op"
            raise InputError(f"there is no layer '{name}' to keep", why, nearest(name, known))
        found |= matching
    return frozenset(found)

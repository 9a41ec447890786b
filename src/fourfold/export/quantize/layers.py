"""Layers: the units that are quantized or stay float, and the nodes that compute on integers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fourfold.errors import InputError, nearest
from fourfold.export.quantize.method import Method
from fourfold.export.quantize.rules import (
    CHANNEL_AXIS,
    CLAMPING,
    FUSED_CLAMPS,
    float_inputs,
    has_constant_weights,
    is_layer,
    is_move,
)
from fourfold.graph import Graph, Node
from fourfold.types import MAX_FLOAT16, DType

MIN_WEIGHTS = 1024  # smaller weights stay float with weight-only methods
_INT4_OPS = ("conv2d", "fully_connected")  # operators that runtimes support with int4 weights


@dataclass(frozen=True)
class LayerNodes:
    """A computing node with the clamp fused into it, if any. Its name is that of the value it
    makes.
    """

    name: str
    op: str
    nodes: frozenset[str]
    title: str = ""  # name of the node in its file


def find_layers(graph: Graph, method: Method) -> tuple[LayerNodes, ...]:
    """Return the layers that a method can quantize, in execution order."""
    if method.values is None:
        changed = (node for node in graph.nodes if weight_inputs(graph, node, method))
        return tuple(_layer(node, node) for node in changed)
    layers: dict[str, LayerNodes] = {}
    for node in graph.nodes:
        if not is_layer(graph, node, method.values):
            continue
        before = graph.producers.get(str(node.inputs[0]))
        if is_fused(graph, node) and before is not None and before.outputs[0] in layers:
            del layers[before.outputs[0]]
            layers[node.outputs[0]] = _layer(before, node)
        else:
            layers[node.outputs[0]] = _layer(node, node)
    return tuple(layers.values())


def _layer(first: Node, last: Node) -> LayerNodes:
    nodes = frozenset((first.outputs[0], last.outputs[0]))
    return LayerNodes(last.outputs[0], first.op, nodes, first.name)


def is_fused(graph: Graph, node: Node) -> bool:
    """Return True if a node clamps the result of a layer that nothing else reads.

    The two are then one operator in the file, which rounds and clamps at once. The value between
    them is not stored.
    """
    name = node.inputs[0] if node.inputs else None
    if node.op not in FUSED_CLAMPS or name is None or graph.is_output(name):
        return False
    producer = graph.producers.get(name)
    return producer is not None and producer.op in CLAMPING and len(graph.readers[name]) == 1


def fused_clamp(graph: Graph, node: Node) -> Node | None:
    """Return the node that clamps this one's result as part of the same layer, or None."""
    readers = graph.readers.get(node.outputs[0], ())
    return readers[0] if len(readers) == 1 and is_fused(graph, readers[0]) else None


def weight_inputs(graph: Graph, node: Node, method: Method) -> list[int]:
    """Return the input indices whose constants a weight-only method stores in another type."""
    if method.weights is DType.F16:
        inputs = float_inputs(graph, node)
        return [at for at in inputs if _fits_fp16(graph, str(node.inputs[at]))]
    if node.op not in CHANNEL_AXIS or not has_constant_weights(graph, node):
        return []
    if method.weights is DType.I4 and node.op not in _INT4_OPS:
        return []
    return [1] if graph.types[str(node.inputs[1])].elements >= MIN_WEIGHTS else []


def _fits_fp16(graph: Graph, name: str) -> bool:
    array = graph.constants.get(name)
    return array is not None and array.size > 1 and bool(np.abs(array).max() <= MAX_FLOAT16)


def integer_nodes(
    graph: Graph, layers: Iterable[LayerNodes], kept: Collection[str], method: Method
) -> frozenset[str]:
    """Return the nodes that compute on integers: layers that are not kept, and moves next to
    them.
    """
    assert method.values is not None
    nodes = {name for layer in layers if layer.name not in kept for name in layer.nodes}
    moves = [node for node in graph.nodes if is_move(graph, node, method.values)]
    last = set() if method.integer_ports else _final_joins(graph, moves)
    for node in moves:
        if node.outputs[0] not in last and any(_makes(graph, name, nodes) for name in node.inputs):
            nodes.add(node.outputs[0])
    for node in reversed(moves):
        readers = graph.readers.get(node.outputs[0], ())
        if any(reader.outputs[0] in nodes for reader in readers):
            nodes.add(node.outputs[0])
    return frozenset(nodes)


def _final_joins(graph: Graph, moves: Sequence[Node]) -> set[str]:
    """Return moves that join several values and that no computation follows.

    Their inputs may keep separate scales as real numbers. The outputs of a detector, for example,
    have very different scales for boxes of different sizes.
    """
    last: set[str] = set()
    for node in reversed(moves):
        readers = graph.readers.get(node.outputs[0], ())
        if all(reader.outputs[0] in last for reader in readers):
            last.add(node.outputs[0])
    joins = [node for node in moves if len(float_inputs(graph, node)) > 1]
    return {node.outputs[0] for node in joins if node.outputs[0] in last}


def _makes(graph: Graph, value: str | None, nodes: set[str]) -> bool:
    producer = None if value is None else graph.producers.get(value)
    return producer is not None and producer.outputs[0] in nodes


def named_layers(layers: Iterable[LayerNodes], names: Iterable[str]) -> frozenset[str]:
    """Return the layers that a caller names, by value, node or operator."""
    selected: set[str] = set()
    layers = tuple(layers)
    for name in names:
        matching = {one.name for one in layers if name in (one.name, one.title, one.op, *one.nodes)}
        if not matching:
            names_ = [layer.name for layer in layers]
            why = "layers are named by their output value, their node or their operator"
            raise InputError(f"there is no layer '{name}' to keep", why, nearest(name, names_))
        selected |= matching
    return frozenset(selected)

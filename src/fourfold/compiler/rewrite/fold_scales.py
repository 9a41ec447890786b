"""y = conv2d(x, w, b); z = mul(y, c)  ->  z = conv2d(x, w * c, b * c), for c per channel.

The same holds for add, sub, div and negate after every op that is a weighted sum. Weights, bias and
c must be constants, and no other node may read y.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from fourfold.compiler.rewrite._names import FoldBudget, PassConstants
from fourfold.graph import Graph, Node

# For each weighted sum, the axis of its weights with the output channels.
_CHANNEL_AXIS = {"conv2d": 0, "depthwise_conv2d": 3, "fully_connected": 0, "transpose_conv2d": 0}

GROWTH = 2  # bytes of scaled weights for each byte of a constant


@dataclass(frozen=True, eq=False)
class Affine:
    """result = y * scale + shift, with one number per channel each."""

    scale: np.ndarray
    shift: np.ndarray


def fold_scales(graph: Graph) -> Graph:
    constants, budget = PassConstants(graph), FoldBudget(graph, GROWTH)
    nodes: list[Node] = []
    positions: dict[str, int] = {}
    for node in graph.nodes:
        source = _weighted_sum_before(graph, node, nodes, positions)
        affine = None if source is None else _affine(graph, node, source)
        folded = (
            None
            if affine is None
            else _scaled(nodes[positions[str(source)]], affine, constants, budget)
        )
        if source is None or folded is None:
            nodes.append(node)
            positions.update((name, len(nodes) - 1) for name in node.outputs)
        else:
            nodes[positions[source]] = replace(folded, outputs=node.outputs)
            positions[node.outputs[0]] = positions[source]
    return constants.apply(nodes)


def _weighted_sum_before(
    graph: Graph, node: Node, nodes: list[Node], positions: Mapping[str, int]
) -> str | None:
    """Return the input that comes from a weighted sum which this node could be folded into."""
    for name in node.inputs:
        if name is None or name not in positions or node.tail:
            continue
        producer = nodes[positions[name]]
        if producer.op not in _CHANNEL_AXIS or producer.tail or node.inputs.count(name) > 1:
            continue
        same = graph.types[name] == graph.types[node.outputs[0]]
        if same and not graph.is_output(name) and len(graph.readers[name]) == 1:
            return name
    return None


def _affine(graph: Graph, node: Node, name: str) -> Affine | None:
    """Return what the node does to the value, if that is a scale and a shift per channel."""
    type_ = graph.types[name]
    one, zero = (
        np.ones(type_.channels, type_.dtype.numpy),
        np.zeros(type_.channels, type_.dtype.numpy),
    )
    if node.op == "negate":
        return Affine(-one, zero)
    if node.op not in {"add", "sub", "mul", "div"}:
        return None
    first = node.inputs[0] == name
    other = _by_channel(graph, node.inputs[1] if first else node.inputs[0], type_.channels)
    if other is None:
        return None
    if node.op == "add":
        return Affine(one, other)
    if node.op == "sub":
        return Affine(one, -other) if first else Affine(-one, other)
    if node.op == "mul":
        return Affine(other, zero)
    return Affine(1 / other, zero) if first and other.all() else None


def _by_channel(graph: Graph, name: str | None, channels: int) -> np.ndarray | None:
    array = None if name is None else graph.constants.get(name)
    if array is None or any(size != 1 for size in array.shape[:-1]):
        return None
    return np.broadcast_to(array.reshape(-1), (channels,))


def _scaled(
    node: Node, affine: Affine, constants: PassConstants, budget: FoldBudget
) -> Node | None:
    """Return the weighted sum with scale and shift in weights and bias, if these are constants."""
    source, weights, bias = (*node.inputs, None)[:3]
    if weights is None or weights not in constants or (bias is not None and bias not in constants):
        return None
    old = constants[weights]
    is_scaled = not (affine.scale == 1).all()
    if not budget.take(old.size, old.nbytes if is_scaled else 0):
        return None
    shape = [1] * old.ndim
    shape[_CHANNEL_AXIS[node.op]] = -1
    with np.errstate(all="ignore"):
        filters = old * affine.scale.reshape(shape)
        offsets = affine.shift if bias is None else constants[bias] * affine.scale + affine.shift
    if not (np.isfinite(filters).all() and np.isfinite(offsets).all()):
        return None
    if is_scaled:
        weights = constants.add(f"{weights.removesuffix('/scaled')}/scaled", filters)
    if bias is not None or offsets.any():
        name = (bias or node.outputs[0]).removesuffix("/shifted")
        bias = constants.add(f"{name}/shifted", offsets)
    return replace(node, inputs=(source, weights, bias))

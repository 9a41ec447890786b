"""y = relu(x) + c * relu(-x)  ->  y = prelu(x, -c), as exporters without a prelu write it.

The negative part may also be min(x, 0) or x - |x|, with any signs and constant factors.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fourfold.compiler.rewrite._match import both_orders, constant_number, find_producer
from fourfold.compiler.rewrite._names import PassConstants
from fourfold.errors import ModelError
from fourfold.graph import NONE, Graph, Node
from fourfold.ops.base import registry
from fourfold.types import TensorType


def find_prelu(graph: Graph) -> Graph:
    constants = PassConstants(graph)
    return constants.apply([_find(graph, node, constants) or node for node in graph.nodes])


def _find(graph: Graph, node: Node, constants: PassConstants) -> Node | None:
    if node.op not in {"add", "sub"} or node.tail:
        return None
    sign = 1.0 if node.op == "add" else -1.0
    for left, right in both_orders(node)[: 2 if node.op == "add" else 1]:
        positive = find_producer(graph, left, "relu")
        factor = None if positive is None else _slope(graph, right, str(positive.inputs[0]))
        if positive is None or factor is None:
            continue
        type_ = graph.types[str(positive.inputs[0])]
        slope = np.asarray(factor * sign, type_.dtype.numpy)
        if _is_legal(type_, slope, graph.types[node.outputs[0]]):
            inputs = (positive.inputs[0], constants.add(f"{node.outputs[0]}/slope", slope))
            return replace(node, op="prelu", inputs=inputs, attributes=NONE)
    return None


def _slope(graph: Graph, name: str | None, x: str) -> np.ndarray | None:
    """Return c, if the value is c * min(x, 0)."""
    factor = np.ones((), np.float64)
    while True:
        node = find_producer(graph, name, "negate", "mul", "relu", "minimum", "sub")
        if node is None:
            return None
        if node.op not in {"negate", "mul"}:
            times = _negative_part(graph, node, x)
            return None if times is None else factor * times
        if node.op == "negate":
            factor, name = -factor, node.inputs[0]
            continue
        pairs = [pair for pair in both_orders(node) if pair[1] in graph.constants]
        if not pairs:
            return None
        name, factor = pairs[0][0], factor * graph.constants[str(pairs[0][1])]


def _negative_part(graph: Graph, node: Node, x: str) -> float | None:
    """Return the factor by which the node multiplies min(x, 0)."""
    if node.op == "relu":
        inner = find_producer(graph, node.inputs[0], "negate")
        return -1.0 if inner is not None and inner.inputs[0] == x else None
    if node.op == "minimum":
        return (
            1.0
            if any(a == x and constant_number(graph, b) == 0.0 for a, b in both_orders(node))
            else None
        )
    inner = find_producer(graph, node.inputs[1], "absolute")
    is_twice = node.inputs[0] == x and inner is not None and inner.inputs[0] == x
    return 2.0 if is_twice else None


def _is_legal(type_: TensorType, slope: np.ndarray, result: TensorType) -> bool:
    try:
        inferred = registry()["prelu"].infer(NONE, type_, TensorType.of(slope))
    except ModelError:
        return False
    return bool(inferred == (result,))

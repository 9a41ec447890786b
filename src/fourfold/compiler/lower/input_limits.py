"""The numbers that integer inputs of a graph may hold, so that players can refuse others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from fourfold.graph import Graph, Node
from fourfold.ops.base import registry
from fourfold.ops.cast import Cast
from fourfold.types import DType

Limits = tuple[int, int]
# Ops whose results are numbers of their input, and all of them.
_KEEPING = frozenset(("identity", "reshape", "tile", "transpose"))
_INT32 = np.iinfo(np.int32)


def input_limits(graph: Graph) -> Mapping[str, Limits]:
    """Return the smallest and the largest valid number of inputs that hold indices, and of 64-bit
    inputs, with which kernels compute in 32 bits.
    """
    limits: dict[str, Limits] = {
        name: (int(_INT32.min), int(_INT32.max))
        for name in graph.arguments
        if graph.types[name].dtype is DType.I64
    }
    for node in graph.nodes:
        for name, (low, high) in _indices(graph, node):
            smallest, largest = limits.get(name, (low, high))
            limits[name] = max(smallest, low), min(largest, high)
    return limits


def _indices(graph: Graph, node: Node) -> Iterator[tuple[str, Limits]]:
    """Yield the input that holds the indices of a node, and the limits of the indices."""
    find = registry()[node.op].indices
    if find is None:
        return
    valid = find(node.attributes, *graph.input_types(node))
    source = _source(graph, node.inputs[valid.input])
    if source in graph.arguments:
        yield source, (min(valid.low), max(valid.high))


def _source(graph: Graph, name: str | None) -> str:
    """Return the value that a value has all its numbers from, unchanged."""
    source = name or ""
    while source in graph.producers and _keeps_numbers(graph, graph.producers[source]):
        source = graph.producers[source].inputs[0] or ""
    return source


def _keeps_numbers(graph: Graph, node: Node) -> bool:
    steps = [(node.op, node.attributes), *((step.op, step.attributes) for step in node.tail)]
    return all(op in _KEEPING or _widens(attributes) for op, attributes in steps) and all(
        graph.types[name].dtype.is_integer for name in node.inputs if name is not None
    )


def _widens(attributes: object) -> bool:
    return isinstance(attributes, Cast) and attributes.to in (DType.I32, DType.I64)

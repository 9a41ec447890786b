"""y = f(constants)  ->  y is a constant, unless it is far larger than its inputs.

An output of the graph must be written by a node: y = f(constants)  ->  y = identity(constant).
"""

from __future__ import annotations

import math

import numpy as np

from fourfold.compiler.rewrite._names import FoldBudget, PassConstants
from fourfold.graph import Graph, Node
from fourfold.ops.base import registry

MAX_RESULT_BYTES = 64 << 20
MAX_GROWTH = 16
FREE_BYTES = 1 << 20
GROWTH = 1  # bytes of results for each byte of a constant; weights were unpacked before

MAX_HEAVY_WORK = 1 << 24
HEAVY_COST = 4  # references of heavy ops take longer for each operation


def fold_constants(graph: Graph) -> Graph:
    constants = PassConstants(graph)
    outputs = frozenset(graph.outputs)
    budget = FoldBudget(graph, GROWTH)
    nodes = []
    for node in graph.nodes:
        if not _is_copy(node, outputs) and _is_foldable(graph, node, constants, budget):
            nodes += _fold(graph, node, constants, outputs)
        else:
            nodes.append(node)
    return constants.apply(nodes)


def _is_copy(node: Node, outputs: frozenset[str]) -> bool:
    """Return whether the node is what this pass leaves for a constant output."""
    return node.op == "identity" and not outputs.isdisjoint(node.outputs)


def _is_foldable(graph: Graph, node: Node, constants: PassConstants, budget: FoldBudget) -> bool:
    if node.tail or not all(name in constants for name in node.reads):
        return False
    sources = [graph.types[name] for name in node.reads]
    results = [graph.types[name] for name in node.outputs]
    if not all(type_.dtype.has_numpy for type_ in (*sources, *results)):
        return False
    work = sum(type_.elements for type_ in (*sources, *results))
    if registry()[node.op].heavy:
        work = sum(type_.elements for type_ in results) * math.prod(t.elements for t in sources)
        if work > MAX_HEAVY_WORK:
            return False
        work *= HEAVY_COST
    growth = MAX_GROWTH * sum(type_.bytes for type_ in sources) + FREE_BYTES
    size = sum(type_.bytes for type_ in results)
    return size <= min(MAX_RESULT_BYTES, growth) and budget.take(work, size)


def _fold(
    graph: Graph, node: Node, constants: PassConstants, outputs: frozenset[str]
) -> list[Node]:
    """Turn the results into constants; return the nodes that are still needed."""
    arrays = [None if name is None else constants[name] for name in node.inputs]
    with np.errstate(all="ignore"):
        results = registry()[node.op].reference(node.attributes, *arrays)
    kept = []
    for name, result in zip(
        node.outputs, results if isinstance(results, tuple) else (results,), strict=True
    ):
        array = np.asarray(result, graph.types[name].dtype.numpy)
        if name in outputs:
            source = constants.add(f"{name}/folded", array)
            kept.append(Node("identity", (source,), (name,), name=node.name))
        else:
            constants.set(name, array)
    return kept

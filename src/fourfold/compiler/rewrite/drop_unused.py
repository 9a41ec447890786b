"""y = f(x), which no node reads  ->  nothing."""

from __future__ import annotations

from fourfold.graph import Graph


def drop_unused(graph: Graph) -> Graph:
    needed = set(graph.outputs)
    kept = []
    for node in reversed(graph.nodes):
        if not needed.isdisjoint(node.outputs):
            kept.append(node)
            needed.update(node.reads)
    return graph.with_nodes(tuple(reversed(kept)))

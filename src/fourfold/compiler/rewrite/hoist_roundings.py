"""y = concat(a, b); z = fake_quantize(y)  ->  z = concat(fake_quantize(a), fake_quantize(b)).

This applies if no other node reads y, a and b are on grids of their own, and weighted sums read z:
the integers that these multiply are then concatenated unchanged.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from fourfold.compiler.rewrite._grids import PICKS, find_grids
from fourfold.compiler.rewrite._match import find_producer
from fourfold.compiler.rewrite._names import PassConstants
from fourfold.graph import Graph, Node
from fourfold.ops.fake_quantize import FakeQuantize

SUMS = ("conv2d", "depthwise_conv2d", "fully_connected")


def hoist_roundings(graph: Graph) -> Graph:
    multiplied = _multiplied_values(graph)
    grids, values = find_grids(graph), PassConstants(graph)
    nodes: list[Node] = []
    for node in graph.nodes:
        join = _join_before(graph, node, multiplied)
        if join is None or not all(name in grids for name in join.reads):
            nodes.append(node)
            continue
        rounded = {}
        for name in dict.fromkeys(join.reads):
            rounded[name] = values.declare(f"{name}/rounded", graph.types[name])
            nodes.append(replace(node, inputs=(name,), outputs=(rounded[name],)))
        nodes.append(replace(join.renamed(rounded), outputs=node.outputs))
    return values.apply(nodes)


def _join_before(graph: Graph, node: Node, multiplied: Set[str]) -> Node | None:
    """Return the concat that only this rounding reads, if the rounded value is multiplied later."""
    if not isinstance(node.attributes, FakeQuantize) or node.tail:
        return None
    join = find_producer(graph, node.inputs[0], "concat")
    if join is None or graph.is_output(join.outputs[0]):
        return None
    alone = len(graph.readers[join.outputs[0]]) == 1
    return join if alone and node.outputs[0] in multiplied else None


def _multiplied_values(graph: Graph) -> Set[str]:
    """Return the values that a weighted sum reads, itself or elements picked and rounded."""
    multiplied: set[str] = set()
    for node in reversed(graph.nodes):
        passes = node.op in PICKS or isinstance(node.attributes, FakeQuantize)
        if node.op in SUMS:
            multiplied.add(str(node.inputs[0]))
        if passes and node.outputs[0] in multiplied:
            multiplied.update(node.reads)
    return multiplied

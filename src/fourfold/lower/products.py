"""How often a model multiplies each number that it moves: what half arithmetic can gain.

Networks of one row times a matrix, as recurrent ones are, read a weight for each product. GPUs,
those of phones included, multiply ten times and more while their memory brings one half: such a
network waits for memory, in any arithmetic.
"""

from __future__ import annotations

from fourfold.graph import Graph, Node
from fourfold.op.registry import registry
from fourfold.split.cost import flops

FEW_PRODUCTS = 4  # for each number that is read or written


def multiplies_little(graph: Graph) -> bool:
    """Whether a model waits for memory rather than for products, each of which is added, too."""
    moved = sum(_moved(graph, node) for node in graph.nodes)
    work = sum(flops(graph, node) for node in graph.nodes)
    return work < 2 * FEW_PRODUCTS * moved


def _moved(graph: Graph, node: Node) -> int:
    """The numbers that a node reads and writes; none where a view suffices."""
    if registry()[node.op].view is not None and not node.tail:
        return 0
    return sum(graph.types[name].elements for name in {*node.reads, *node.outputs})

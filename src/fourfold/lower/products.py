"""How often a model multiplies each number that it moves: what half arithmetic can gain.

Networks of one row times a matrix, as recurrent ones are, read a weight for each product. GPUs,
those of phones included, multiply ten times and more while their memory brings one half: such a
network waits for memory, in any arithmetic. Where there are matrix units, which multiply a hundred
times and sum up in floats, narrow networks do, too.
"""

from __future__ import annotations

from math import prod

from fourfold.graph import Graph, Node
from fourfold.op.registry import registry

# For each number that is read or written, without and with matrix units.
FEW_PRODUCTS = {False: 4, True: 16}


def multiplies_little(graph: Graph, matrix_units: bool = False) -> bool:
    """Whether a model waits for memory rather than for products."""
    moved = sum(_moved(graph, node) for node in graph.nodes)
    products = sum(_products(graph, node) for node in graph.nodes)
    return products < FEW_PRODUCTS[matrix_units] * moved


def _moved(graph: Graph, node: Node) -> int:
    """The numbers that a node reads and writes; none where a view suffices."""
    if registry()[node.op].view is not None and not node.tail:
        return 0
    return sum(graph.types[name].elements for name in {*node.reads, *node.outputs})


def _products(graph: Graph, node: Node) -> int:
    """Of the ops that multiply matrices or windows; what others do is little beside it."""
    results = graph.types[node.outputs[0]].elements
    factors = [() if name is None else graph.types[name].shape for name in node.inputs[:2]]
    match node.op:
        case "conv2d" | "conv3d":
            return results * prod(factors[1][1:])
        case "depthwise_conv2d":
            return results * prod(factors[1][1:3])
        case "fully_connected":
            return results * factors[1][-1]
        case "transpose_conv2d":
            return prod(factors[0][:-1]) * prod(factors[1])
        case "batch_matmul":
            return results * factors[0][-1]
    return 0

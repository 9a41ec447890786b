"""Detects memory-bound models, in which fp16 arithmetic gains nothing.

Networks that multiply one row by a matrix, such as recurrent ones, read a weight for each product.
GPUs, including those of phones, do ten or more multiplications while their memory delivers one fp16
value. Such a network is memory-bound in any arithmetic.
"""

from __future__ import annotations

from fourfold.compiler.partition.cost import flops
from fourfold.graph import Graph, Node
from fourfold.ops.base.registry import registry

MIN_FLOPS_PER_ELEMENT = 8  # per number that is read or written


def is_memory_bound(graph: Graph) -> bool:
    """Return whether a model is limited by memory bandwidth instead of arithmetic."""
    moved = sum(_moved(graph, node) for node in graph.nodes)
    work = sum(flops(graph, node) for node in graph.nodes)
    return work < MIN_FLOPS_PER_ELEMENT * moved


def _moved(graph: Graph, node: Node) -> int:
    """Return the count of numbers that a node reads and writes; 0 for a view."""
    if registry()[node.op].view is not None and not node.tail:
        return 0
    return sum(graph.types[name].elements for name in {*node.reads, *node.outputs})

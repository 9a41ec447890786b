"""Finds values of which a logarithm is taken, directly or indirectly.

A logarithm makes small numbers as important as large ones. The magnitudes of a spectrum are sums in
which most terms cancel: rounded to fp16, the error is relative to the largest term and may exceed a
small result. Therefore the operand of a logarithm is computed in fp32, with everything that leads
to it by sums, products and magnitudes. The search stops at an activation, because its result is not
a difference of larger numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

from fourfold.graph import Graph, Node
from fourfold.ops.formula import all_terms
from fourfold.ops.kernels.joined import Joined

_MOVES = ("concat", "gather", "identity", "mirror_pad", "pad", "reshape", "slice", "transpose")
_PRODUCTS = ("batch_matmul", "conv2d", "depthwise_conv2d", "div", "fully_connected", "mul")
_SUMS = ("add", "mean", "negate", "sub", "sum")
_MAGNITUDES = ("absolute", "complex_abs", "maximum", "power", "sqrt", "square")
_SPECTRA = ("rfft2d", "spectrum")
LOG_PATH_OPS = frozenset((*_MOVES, *_PRODUCTS, *_SUMS, *_MAGNITUDES, *_SPECTRA))


def values_for_logarithms(graph: Graph) -> frozenset[str]:
    """Return the values of which a logarithm is taken, directly or indirectly."""
    values: set[str] = set()
    for node in reversed(graph.nodes):
        if _leads_to_logarithm(node, values):
            values.update(name for name in node.reads if name not in graph.constants)
    return frozenset(values)


def nodes_for_logarithms(graph: Graph) -> frozenset[str]:
    """Return the first outputs of the nodes that compute or take such logarithms."""
    values = values_for_logarithms(graph)
    return frozenset(
        node.outputs[0]
        for node in graph.nodes
        if values.intersection(node.outputs) or "log" in _ops(node)
    )


def _leads_to_logarithm(node: Node, values: set[str]) -> bool:
    """Return whether only sums, products and magnitudes lead from a node to a logarithm."""
    ops = [*_ops(node)]
    if "log" in ops:
        ops = ops[: ops.index("log")]
    elif not values.intersection(node.outputs):
        return False
    return LOG_PATH_OPS.issuperset(ops)


def _ops(node: Node) -> Iterator[str]:
    """Yield the ops of a node in order, including those of its tail and of formulas."""
    parts = node.attributes.parts if isinstance(node.attributes, Joined) else ()
    for part in parts:
        yield from _ops(part)
    own = () if parts else ((node.op, node.attributes),)
    for op, attributes in (*own, *((step.op, step.attributes) for step in node.tail)):
        yield from [term.op for term in all_terms(attributes)] or [op]

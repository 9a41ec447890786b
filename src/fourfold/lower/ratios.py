"""Which values count by their ratios, since a logarithm is taken of them.

A logarithm makes small numbers as important as large ones. The magnitudes of a spectrum are sums in
which most cancels out: rounded as halves, what is summed up is off by a part of the largest, which
may be more than all of a small one. So what a logarithm is taken of is made in full precision, with
all that leads there by sums, products and magnitudes. An activation ends the way back: what it
gives is no difference of larger numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

from fourfold.graph import Graph, Node
from fourfold.kernels.joined import Joined
from fourfold.ops.formula import all_terms

_MOVES = ("concat", "gather", "identity", "mirror_pad", "pad", "reshape", "slice", "transpose")
_PRODUCTS = ("batch_matmul", "conv2d", "depthwise_conv2d", "div", "fully_connected", "mul")
_SUMS = ("add", "mean", "negate", "sub", "sum")
_MAGNITUDES = ("absolute", "complex_abs", "maximum", "power", "sqrt", "square")
_SPECTRA = ("rfft2d", "spectrum")
ON_THE_WAY = frozenset((*_MOVES, *_PRODUCTS, *_SUMS, *_MAGNITUDES, *_SPECTRA))


def values_for_logarithms(graph: Graph) -> frozenset[str]:
    """The values that a logarithm is taken of, or of what is made of them."""
    found: set[str] = set()
    for node in reversed(graph.nodes):
        if _is_on_the_way(node, found):
            found.update(name for name in node.reads if name not in graph.constants)
    return frozenset(found)


def nodes_for_logarithms(graph: Graph) -> frozenset[str]:
    """The first results of the nodes that make them, and of those that take the logarithm."""
    found = values_for_logarithms(graph)
    return frozenset(
        node.outputs[0]
        for node in graph.nodes
        if found.intersection(node.outputs) or "log" in _ops(node)
    )


def _is_on_the_way(node: Node, found: set[str]) -> bool:
    """Whether nothing but sums, products and magnitudes lies between a node's inputs and a log."""
    ops = [*_ops(node)]
    if "log" in ops:
        ops = ops[: ops.index("log")]
    elif not found.intersection(node.outputs):
        return False
    return ON_THE_WAY.issuperset(ops)


def _ops(node: Node) -> Iterator[str]:
    """The ops of a node in order, those of its tail and of formulas included."""
    parts = node.attributes.parts if isinstance(node.attributes, Joined) else ()
    for part in parts:
        yield from _ops(part)
    own = () if parts else ((node.op, node.attributes),)
    for op, attributes in (*own, *((step.op, step.attributes) for step in node.tail)):
        yield from [term.op for term in all_terms(attributes)] or [op]

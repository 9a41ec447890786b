"""y = x * relu6(x + 3) / 6  ->  y = hard_swish(x), wherever the factor of 1/6 is."""

from __future__ import annotations

import math
from dataclasses import replace

from fourfold.compiler.rewrite._match import both_orders, constant_number, find_producer
from fourfold.graph import NONE, Graph, Node


def find_hard_swish(graph: Graph) -> Graph:
    return graph.with_nodes(tuple(_find(graph, node) or node for node in graph.nodes))


def _find(graph: Graph, node: Node) -> Node | None:
    if node.op not in {"mul", "div"} or node.tail:
        return None
    product, scale = _scaled(graph, node.outputs[0])
    product_node = find_producer(graph, product, "mul")
    for left, right in () if product_node is None else both_orders(product_node):
        gate, gate_scale = _scaled(graph, right)
        for x, x_scale in ((left, 1.0), _scaled(graph, left)):
            total = scale * gate_scale * x_scale
            if (
                x is not None
                and _is_gate(graph, gate, x)
                and math.isclose(total, 1 / 6, rel_tol=1e-6)
            ):
                same = graph.types[x] == graph.types[node.outputs[0]]
                return (
                    replace(node, op="hard_swish", inputs=(x,), attributes=NONE) if same else None
                )
    return None


def _scaled(graph: Graph, name: str | None) -> tuple[str | None, float]:
    """Return the value that this one is a multiple of, and the factor."""
    node = find_producer(graph, name, "mul", "div")
    if node is None:
        return name, 1.0
    for left, right in both_orders(node)[: 2 if node.op == "mul" else 1]:
        factor = constant_number(graph, right)
        if factor:
            return left, factor if node.op == "mul" else 1 / factor
    return name, 1.0


def _is_gate(graph: Graph, name: str | None, x: str) -> bool:
    """Return whether the value is relu6(x + 3)."""
    outer = find_producer(graph, name, "relu6")
    inner = None if outer is None else find_producer(graph, outer.inputs[0], "add")
    return inner is not None and any(
        a == x and constant_number(graph, b) == 3.0 for a, b in both_orders(inner)
    )

"""Activation functions built from several ops, shared by several formats."""

from __future__ import annotations

from fourfold.formats.operator_nodes import OperatorNodes


def give_elu(nodes: OperatorNodes, x: str, alpha: float) -> None:
    """Write x where x >= 0, else alpha * (e**x - 1), to the output."""
    if alpha == 1.0:
        nodes.give("elu", x)
    else:
        nodes.give("add", *elu_parts(nodes, x, alpha))


def elu_parts(nodes: OperatorNodes, x: str, alpha: float, scale: float = 1.0) -> tuple[str, str]:
    """Return two values whose sum is x where x >= 0, else alpha * (e**(x / scale) - 1)."""
    below = nodes.add("minimum", x, nodes.scalar(0.0, x, "zero"), part="below")
    if scale != 1.0:
        below = nodes.add("div", below, nodes.scalar(scale, x, "scale"), part="slower")
    curve = nodes.add("elu", below, part="curve")
    scaled = nodes.add("mul", curve, nodes.scalar(alpha, x, "alpha"), part="scaled")
    return nodes.add("relu", x, part="above"), scaled


def softplus_parts(nodes: OperatorNodes, x: str) -> tuple[str, str]:
    """Return two values whose sum is log(1 + e**x), computed without overflow."""
    away = nodes.add("negate", nodes.add("absolute", x, part="absolute"), part="away")
    one = nodes.scalar(1.0, x, "one")
    total = nodes.add("add", nodes.add("exp", away, part="exp"), one, part="total")
    return nodes.add("relu", x, part="above"), nodes.add("log", total, part="log")


def give_mish(nodes: OperatorNodes, x: str) -> None:
    """Write x * tanh(log(1 + e**x)) to the output."""
    soft = nodes.add("add", *softplus_parts(nodes, x), part="soft")
    nodes.give("mul", x, nodes.add("tanh", soft, part="bend"))

"""Comparison and selection operators."""

from __future__ import annotations

from fourfold.formats.onnx.operation import Operation
from fourfold.formats.onnx.rule import converts

_BINARY = {
    "And": "logical_and",
    "Equal": "equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "Or": "logical_or",
    "Xor": "not_equal",
}


@converts(*_BINARY)
def binary(op: Operation) -> None:
    """the op of the same name on two values."""
    op.give(_BINARY[op.record.op], op.input(0), op.input(1))


@converts("Not")
def negation(op: Operation) -> None:
    """logical_not."""
    op.give("logical_not", op.input(0))


@converts("Where")
def where(op: Operation) -> None:
    """select with broadcasting."""
    op.give("select", op.input(0), op.input(1), op.input(2))


@converts("Mod")
def mod(op: Operation) -> None:
    """floor_mod, or remainder with the sign of the dividend."""
    name = "remainder" if op.attribute("fmod", 0) else "floor_mod"
    op.give(name, op.input(0), op.input(1))

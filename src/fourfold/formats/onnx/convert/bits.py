"""Bitwise operators, and tests for NaN and infinity."""

from __future__ import annotations

import math

import numpy as np

from fourfold.formats.onnx.operation import Operation
from fourfold.formats.onnx.rule import converts
from fourfold.ops.bit_shift import BitShift

_BINARY = {"BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or", "BitwiseXor": "bitwise_xor"}


@converts(*_BINARY)
def bitwise(op: Operation) -> None:
    """the op of the same name."""
    op.give(_BINARY[op.record.op], op.input(0), op.input(1))


@converts("BitwiseNot")
def bitwise_not(op: Operation) -> None:
    """bitwise_xor with all bits."""
    dtype = op.input_type(0).dtype
    all_bits = np.asarray(np.invert(np.zeros((), dtype.numpy)))
    op.give("bitwise_xor", op.input(0), op.add_constant(all_bits, "every"))


@converts("BitShift")
def bit_shift(op: Operation) -> None:
    """bit_shift."""
    direction = op.text_attribute("direction", "")
    if direction not in ("LEFT", "RIGHT"):
        raise ValueError(f"its direction '{direction}' is neither LEFT nor RIGHT")
    op.give("bit_shift", op.input(0), op.input(1), attributes=BitShift(direction == "LEFT"))


@converts("IsNaN")
def is_nan(op: Operation) -> None:
    """not_equal to itself."""
    op.give("not_equal", op.input(0), op.input(0))


@converts("IsInf")
def is_inf(op: Operation) -> None:
    """equal to infinity, to minus infinity, or to either."""
    x, dtype = op.input(0), op.input_type(0).dtype
    positive, negative = op.attribute("detect_positive", 1), op.attribute("detect_negative", 1)
    if positive and negative:
        x = op.add("absolute", x, part="size")
    if positive or negative:
        infinity = math.inf if positive else -math.inf
        op.give("equal", x, op.add_constant(infinity, "infinity", dtype))
    else:
        op.give("less", x, op.add_constant(-math.inf, "below", dtype))

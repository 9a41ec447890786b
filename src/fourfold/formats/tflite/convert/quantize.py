"""Quantize and dequantize operators.

Quantized values are real numbers in the graph; only the rounding to the output's quantization
remains, which follows every operator on quantized values.
"""

from __future__ import annotations

from fourfold.formats.rule_table import Unconvertible
from fourfold.formats.tflite.operation import Operation, converts
from fourfold.types import DType, dequantize


@converts("DEQUANTIZE", weights=True)
def dequantize_(op: Operation) -> None:
    """a constant for weights; identity for values, which are real numbers already."""
    name = op.input(0)
    if name in op.builder.constants:
        array = op.builder.constants[name]
        op.reserve(op.input_type(0).with_dtype(DType.F32), array.nbytes)
        op.give_constant(dequantize(array, op.builder.quantization.get(name)))
    else:
        _pass_on(op)


@converts("QUANTIZE")
def quantize(op: Operation) -> None:
    """fake_quantize, or identity if the quantization is the same."""
    name = op.input(0)
    if name in op.builder.constants:
        op.give_constant(op.builder.constants[name])
    else:
        _pass_on(op)


def _pass_on(op: Operation) -> None:
    if op.input_type(0).dtype is not DType.F32:
        raise Unconvertible(f"{op.input_type(0)} is not quantized")
    op.give("identity", op.input(0))

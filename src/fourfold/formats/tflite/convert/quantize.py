"""Operators between real numbers and the integers that stand for them.

Values are real numbers here, whatever the file has: what is left to do is the rounding to the grid
of the output, which follows every operator on quantised values.
"""

from __future__ import annotations

from fourfold.formats.refusal import Unconvertible
from fourfold.formats.tflite.operation import Operation
from fourfold.formats.tflite.rule import converts
from fourfold.types import DType, dequantize


@converts("DEQUANTIZE", weights=True)
def dequantize_(op: Operation) -> None:
    """a constant for weights; nothing for values, which are real already."""
    name = op.input(0)
    if name in op.builder.constants:
        array = op.builder.constants[name]
        op.reserve(op.input_type(0).with_dtype(DType.F32), array.nbytes)
        op.give_constant(dequantize(array, op.builder.quantization.get(name)))
    else:
        _pass_on(op)


@converts("QUANTIZE")
def quantize(op: Operation) -> None:
    """fake_quantize, or nothing where the numbers are on the same grid before."""
    name = op.input(0)
    if name in op.builder.constants:
        op.give_constant(op.builder.constants[name])
    else:
        _pass_on(op)


def _pass_on(op: Operation) -> None:
    if op.input_type(0).dtype is not DType.F32:
        raise Unconvertible(f"{op.input_type(0)} stands for no real numbers")
    op.give("identity", op.input(0))

"""Integer products, computed in float32, which represents these results exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fourfold.formats.onnx.convert.matrix import matmul
from fourfold.formats.onnx.convert.window import conv
from fourfold.formats.onnx.operation import Operation
from fourfold.formats.onnx.rule import converts
from fourfold.formats.refusal import Unconvertible
from fourfold.ops.cast import Cast
from fourfold.types import DType

_MAX_EXACT_PRODUCTS = 258  # products of two 8-bit numbers whose sum is exact in float32


def _by(rule: Callable[[Operation], None], op: Operation, *inputs: str | None) -> str:
    """Return the result of another operator's rule on these values."""
    output = op.builder.fresh(f"{op.name}/product")
    rule(replace(op, inputs=inputs, outputs=(output,)))
    return output


def _shifted(op: Operation, index: int, zero: int, axis: int) -> str:
    """Return an input minus its zero point, as real numbers."""
    value = op.converted(op.input(index), DType.F32, f"real{index}")
    if op.optional(zero) is None:
        return value
    point = op.converted(op.input(zero), DType.F32, f"zero{index}")
    count, rank = op.type_of(point).elements, op.type_of(value).rank
    shape = () if count == 1 else (count, *(1,) * (rank - 1 - axis))
    if op.type_of(point).rank < 2:
        point = op.reshaped(point, shape, f"line{index}")
    return op.add("sub", value, point, part=f"shifted{index}")


@converts("MatMulInteger")
def matmul_integer(op: Operation) -> None:
    """batch_matmul of real numbers, then cast."""
    depth = op.input_type(0).channels
    if depth > _MAX_EXACT_PRODUCTS:
        raise Unconvertible(f"a sum of {depth} products is not exact in float32")
    left = _shifted(op, 0, 2, op.input_type(0).rank - 2)
    right = _shifted(op, 1, 3, op.input_type(1).rank - 1)
    op.give("cast", _by(matmul, op, left, right), attributes=Cast(DType.I32))


@converts("ConvInteger")
def conv_integer(op: Operation) -> None:
    """a convolution of real numbers, then cast."""
    weights = op.input_type(1)
    depth = weights.elements // max(weights.shape[0], 1)
    if depth > _MAX_EXACT_PRODUCTS:
        raise Unconvertible(f"a sum of {depth} products is not exact in float32")
    value = _by(conv, op, _shifted(op, 0, 2, 1), _shifted(op, 1, 3, 0))
    op.give("cast", value, attributes=Cast(DType.I32))

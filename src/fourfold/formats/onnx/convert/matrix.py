"""Matrix multiplication operators, and integer products, computed exactly in float32."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fourfold.formats.onnx.convert.window import conv
from fourfold.formats.onnx.operation import Operation, converts
from fourfold.formats.rule_table import Unconvertible
from fourfold.ops.batch_matmul import BatchMatmul
from fourfold.ops.cast import Cast
from fourfold.types import DType, TensorType


@converts("MatMul")
def matmul(op: Operation) -> None:
    """fully_connected if the second input is one constant matrix, else batch_matmul."""
    left, right = op.input(0), op.input(1)
    a, b = op.type_of(left), op.type_of(right)
    if min(a.rank, b.rank) < 1:
        raise ValueError("its inputs are not matrices")
    if a.rank == 1:
        left = op.reshaped(left, (1, *a.shape), "row")
    if b.rank == 1:
        right = op.reshaped(right, (*b.shape, 1), "column")
    value = multiply(op, left, right)
    shape = op.type_of(value).shape
    if a.rank == 1:
        shape = (*shape[:-2], shape[-1])
    if b.rank == 1:
        shape = shape[:-1]
    op.give_value(op.reshaped(value, shape, "result"))


def multiply(op: Operation, left: str, right: str) -> str:
    """Return the product of two matrices or of batches of them."""
    b = op.type_of(right)
    if right in op.builder.constants and _is_one_matrix(op.type_of(left), b):
        flat = op.reshaped(right, b.shape[-2:], "matrix")
        weights = op.transposed(flat, (1, 0), "weights")
        return op.add("fully_connected", left, weights, None, part="product")
    return op.add("batch_matmul", left, right, attributes=BatchMatmul(), part="product")


def _is_one_matrix(a: TensorType, b: TensorType) -> bool:
    return b.rank <= a.rank and b.pixels == b.shape[-2]


@converts("Gemm")
def gemm(op: Operation) -> None:
    """fully_connected with its bias, or batch_matmul and add."""
    a, b = op.input(0), op.input(1)
    if op.type_of(a).rank != 2 or op.type_of(b).rank != 2:
        raise ValueError("its inputs are not matrices")
    if op.attribute("transA", 0):
        a = op.transposed(a, (1, 0), "left")
    alpha, beta = op.real_attribute("alpha", 1.0), op.real_attribute("beta", 1.0)
    turned = bool(op.attribute("transB", 0))
    if b in op.builder.constants:
        weights = b if turned else op.transposed(b, (1, 0), "weights")
        weights = _scaled(op, weights, alpha, "scaled")
        bias = _bias(op, beta, op.type_of(weights).shape[0])
        value = op.add("fully_connected", a, weights, bias, part="product")
    else:
        bias = None
        value = op.add("batch_matmul", a, b, attributes=BatchMatmul(turned), part="product")
        value = _scaled(op, value, alpha, "scaled")
    if bias is None and op.optional(2) is not None and beta != 0:
        value = op.add("add", value, _scaled(op, op.input(2), beta, "beta"), part="sum")
    op.give_value(value)


def _scaled(op: Operation, value: str, factor: float, part: str) -> str:
    if factor == 1.0:
        return value
    return op.add(
        "mul", value, op.add_constant(factor, f"{part}_by", op.type_of(value).dtype), part=part
    )


def _bias(op: Operation, beta: float, columns: int) -> str | None:
    """Return the addend as a constant bias per column; None if it does not have that form."""
    array = op.known(op.optional(2))
    if array is None or array.dtype.kind != "f":
        return None
    if array.size not in (1, columns) or (array.size > 1 and array.shape[-1] != columns):
        return None
    row = np.broadcast_to(array.reshape(-1) * array.dtype.type(beta), (columns,))
    return op.add_constant(np.ascontiguousarray(row), "bias")


_MAX_EXACT_PRODUCTS = 258  # products of two 8-bit numbers whose sum is exact in float32


def _apply_rule(rule: Callable[[Operation], None], op: Operation, *inputs: str | None) -> str:
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
    op.give("cast", _apply_rule(matmul, op, left, right), attributes=Cast(DType.I32))


@converts("ConvInteger")
def conv_integer(op: Operation) -> None:
    """a convolution of real numbers, then cast."""
    weights = op.input_type(1)
    depth = weights.elements // max(weights.shape[0], 1)
    if depth > _MAX_EXACT_PRODUCTS:
        raise Unconvertible(f"a sum of {depth} products is not exact in float32")
    value = _apply_rule(conv, op, _shifted(op, 0, 2, 1), _shifted(op, 1, 3, 0))
    op.give("cast", value, attributes=Cast(DType.I32))

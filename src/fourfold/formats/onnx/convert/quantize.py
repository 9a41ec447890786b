"""Operators on quantized values, computed on the real numbers they represent.

Constants are dequantized once. Quantized values are rounded to representable numbers, which a later
dequantization reads directly; the integers themselves are only computed for operators that read
them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fourfold.formats.axes import axis_of
from fourfold.formats.onnx.convert.grids import (
    dequantize_by_arithmetic,
    is_plain,
    quantize_by_arithmetic,
)
from fourfold.formats.onnx.convert.matrix import gemm, matmul
from fourfold.formats.onnx.convert.pointwise import leaky_relu, unary
from fourfold.formats.onnx.convert.reduce import global_pool, softmax
from fourfold.formats.onnx.convert.slices import concat
from fourfold.formats.onnx.convert.window import conv, pool
from fourfold.formats.onnx.operation import Operation, converts
from fourfold.formats.onnx.schema import Element, graph_dtype
from fourfold.formats.rule_table import Unconvertible
from fourfold.ops.dequantize import Dequantize
from fourfold.ops.fake_quantize import FakeQuantize
from fourfold.ops.quantize import Quantize
from fourfold.types import DType, Quantization, TensorType, dequantize

_SUPPORTED = (DType.I8, DType.U8, DType.I16, DType.U16)


@dataclass(frozen=True)
class _Grid:
    """real = (stored - zero_point) * scale, with one scale for all elements."""

    scale: float
    zero_point: int
    dtype: DType

    @property
    def quantize(self) -> Quantize:
        limits = np.iinfo(self.dtype.numpy)
        low, high = int(limits.min) - self.zero_point, int(limits.max) - self.zero_point
        return Quantize(self.scale, low, high, self.zero_point, self.dtype)

    @property
    def fake_quantize(self) -> FakeQuantize:
        return FakeQuantize(self.scale, self.quantize.low, self.quantize.high)


def _numbers(op: Operation, scale: int, zero: int) -> tuple[np.ndarray, np.ndarray]:
    """Return scales and zero points, which must be constants."""
    scales = op.constant(scale, "scale").astype(np.float32)
    zero_points = op.known(op.optional(zero))
    if zero_points is None and op.optional(zero) is not None:
        raise Unconvertible(f"zero point '{op.optional(zero)}' is computed at run time")
    points = (
        np.zeros(scales.shape, np.int64) if zero_points is None else zero_points.astype(np.int64)
    )
    if points.size not in (1, scales.size) or not (np.isfinite(scales) & (scales > 0)).all():
        raise ValueError("its scales and zero points are not valid")
    return scales, np.broadcast_to(points.reshape(-1), scales.size).reshape(scales.shape)


def _grid(op: Operation, scale: int, zero: int, dtype: DType) -> _Grid:
    scales, points = _numbers(op, scale, zero)
    if scales.size != 1 or dtype not in _SUPPORTED:
        raise Unconvertible(f"values of {dtype.value} with {scales.size} scales are not supported")
    return _Grid(float(scales.reshape(-1)[0]), int(points.reshape(-1)[0]), dtype)


def _stored_dtype(op: Operation, zero: int) -> DType:
    """Return the integer type: that of the zero point, or of an attribute."""
    if op.optional(zero) is not None:
        return op.input_type(zero).dtype
    return graph_dtype(op.attribute("output_dtype", 0) or Element.UINT8)


@converts("QuantizeLinear")
def quantize_linear(op: Operation) -> None:
    """fake_quantize, and quantize if the integers are read; plain arithmetic for several scales."""
    if not is_plain(op):
        quantize_by_arithmetic(op)
        return
    _round(op, op.input(0), _grid(op, 1, 2, _stored_dtype(op, 2)))


def _round(op: Operation, exact: str, grid: _Grid) -> None:
    real = op.add("fake_quantize", exact, attributes=grid.fake_quantize, part="real")
    op.give("quantize", real, attributes=grid.quantize)


@converts("DequantizeLinear")
def dequantize_linear(op: Operation) -> None:
    """a constant, the value before a matching quantize, or dequantize."""
    value, scale, zero = op.input(0), 1, 2
    blocks = op.attribute("block_size", 0)
    if not is_plain(op) and (blocks or value not in op.builder.constants):
        dequantize_by_arithmetic(op)
        return
    if value in op.builder.constants:
        op.give_constant(_real_constant(op, value, _numbers(op, scale, zero)))
        final = op.output(0)
        if final is not None:
            _note_scales(op, final, _numbers(op, scale, zero), op.attribute("axis", 1))
        return
    op.give_value(_real(op, value, scale, zero))


def _real(op: Operation, value: str, scale: int, zero: int) -> str:
    """Return the real numbers of a quantized value."""
    grid = _grid(op, scale, zero, op.type_of(value).dtype)
    producers = (node for node in reversed(op.builder.nodes) if node.outputs == (value,))
    node = next(producers, None)
    if node is not None and node.op == "quantize" and node.attributes == grid.quantize:
        return str(node.inputs[0])
    attributes = Dequantize(grid.scale, grid.zero_point)
    return op.add("dequantize", value, attributes=attributes, part="real")


def _scales_axis(op: Operation, scales: np.ndarray, rank: int, axis: int) -> int | None:
    return axis_of(axis, rank) if scales.size > 1 else None


def _real_constant(
    op: Operation, value: str, numbers: tuple[np.ndarray, np.ndarray], axis: int | None = None
) -> np.ndarray:
    array = op.builder.constants[value]
    along = op.attribute("axis", 1) if axis is None else axis
    quantization = _quantization(op, array, numbers, along)
    op.reserve(TensorType(DType.F32, array.shape))
    return dequantize(array, quantization)


def _quantization(
    op: Operation, array: np.ndarray, numbers: tuple[np.ndarray, np.ndarray], axis: int
) -> Quantization:
    scales, points = (one.reshape(-1) for one in numbers)
    along = _scales_axis(op, scales, array.ndim, axis)
    if along is not None and array.shape[along] != scales.size:
        raise ValueError(f"{scales.size} scales do not fit axis {along} of {list(array.shape)}")
    return Quantization(tuple(scales.tolist()), tuple(points.tolist()), along)


def _note_scales(
    op: Operation, real: str, numbers: tuple[np.ndarray, np.ndarray], axis: int
) -> None:
    """Record the quantization of a constant, so that products of it can use integers."""
    recorded = _quantization(op, op.builder.constants[real], numbers, axis)
    op.builder.quantization[real] = recorded


def _weights(op: Operation, index: int, axis: int) -> str:
    """Return a constant operand as real numbers; its scales are along an axis."""
    value, numbers = op.input(index), _numbers(op, index + 1, index + 2)
    if value not in op.builder.constants:
        return _real(op, value, index + 1, index + 2)
    real = op.add_constant(_real_constant(op, value, numbers, axis), "weights")
    _note_scales(op, real, numbers, axis)
    return real


def _inner(op: Operation, name: str, *inputs: str | None) -> tuple[Operation, str]:
    """Return an operator on real numbers with the attributes of this one, and its result."""
    exact = op.builder.fresh(f"{op.name}/exact")
    record = replace(op.record, op=name, domain="")
    return replace(op, record=record, inputs=inputs, outputs=(exact,)), exact


def _bias(op: Operation, index: int, weights: int) -> str | None:
    """Return the integer bias of a product as real numbers."""
    if op.optional(index) is None:
        return None
    scales = _numbers(op, 1, 2)[0] * _numbers(op, weights + 1, weights + 2)[0]
    real = op.constant(index, "bias").astype(np.float64) * scales.reshape(-1)
    bias = op.add_constant(real.astype(np.float32), "bias")
    _note_scales(op, bias, (scales, np.zeros(scales.shape, np.int64)), 0)
    return bias


@converts("QLinearConv")
def qlinear_conv(op: Operation) -> None:
    """a convolution of real numbers, then fake_quantize."""
    x, weights, bias = _real(op, op.input(0), 1, 2), _weights(op, 3, 0), _bias(op, 8, 3)
    inner, exact = _inner(op, "Conv", x, weights, bias)
    conv(inner)
    _round(op, exact, _grid(op, 6, 7, _stored_dtype(op, 7)))


@converts("QLinearMatMul")
def qlinear_matmul(op: Operation) -> None:
    """a matrix product of real numbers, then fake_quantize."""
    inner, exact = _inner(op, "MatMul", _real(op, op.input(0), 1, 2), _weights(op, 3, -1))
    matmul(inner)
    _round(op, exact, _grid(op, 6, 7, _stored_dtype(op, 7)))


@converts("com.microsoft.QGemm")
def qgemm(op: Operation) -> None:
    """a matrix product of real numbers, then fake_quantize."""
    axis = 0 if op.attribute("transB", 0) else 1
    x, weights, bias = _real(op, op.input(0), 1, 2), _weights(op, 3, axis), _bias(op, 6, 3)
    inner, exact = _inner(op, "Gemm", x, weights, bias)
    gemm(inner)
    if op.optional(7) is None:
        op.give_value(exact)
    else:
        _round(op, exact, _grid(op, 7, 8, _stored_dtype(op, 8)))


@converts("com.microsoft.QLinearAdd", "com.microsoft.QLinearMul")
def qlinear_binary(op: Operation) -> None:
    """the op on real numbers, then fake_quantize."""
    name = "add" if op.record.op == "QLinearAdd" else "mul"
    exact = op.add(name, _weights(op, 0, 0), _weights(op, 3, 0), part="exact")
    _round(op, exact, _grid(op, 6, 7, _stored_dtype(op, 7)))


_UNARY = {
    "AveragePool": pool,
    "GlobalAveragePool": global_pool,
    "LeakyRelu": leaky_relu,
    "Sigmoid": unary,
    "Softmax": softmax,
}


@converts(*(f"com.microsoft.QLinear{name}" for name in _UNARY))
def qlinear_unary(op: Operation) -> None:
    """the op on real numbers, then fake_quantize."""
    if op.attribute("channels_last", 0):
        raise Unconvertible("channels-last layout is not supported")
    name = op.record.op.removeprefix("QLinear")
    inner, exact = _inner(op, name, _real(op, op.input(0), 1, 2))
    inner = replace(inner, version=op.attribute("opset", inner.version))
    _UNARY[name](inner)
    _round(op, exact, _grid(op, 3, 4, _stored_dtype(op, 4)))


@converts("com.microsoft.QLinearConcat")
def qlinear_concat(op: Operation) -> None:
    """concat of real numbers, then fake_quantize."""
    parts = [_weights(op, index, 0) for index in range(2, len(op.inputs), 3)]
    inner, exact = _inner(op, "Concat", *parts)
    concat(inner)
    _round(op, exact, _grid(op, 0, 1, _stored_dtype(op, 1)))

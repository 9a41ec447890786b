"""Operators whose result is known while the model is read: shapes, ranges, dequantised weights."""

from __future__ import annotations

import math

import numpy as np

from fourfold.formats.budget import check_shape
from fourfold.formats.tflite.operation import Operation
from fourfold.formats.tflite.options import ShapeOptions
from fourfold.formats.tflite.rule import converts
from fourfold.formats.tflite.schema import element_type
from fourfold.types import DType, TensorType


@converts("SHAPE")
def shape(op: Operation) -> None:
    """a constant: all shapes are known."""
    kind = element_type(op.options(ShapeOptions).out_type)
    wide = kind is DType.I64 or op.declared[0].dtype is DType.I64
    op.give_constant(np.array(op.input_type(0).shape, np.int64 if wide else np.int32))


@converts("RANK")
def rank(op: Operation) -> None:
    """a constant: all shapes are known."""
    op.give_constant(np.array(op.input_type(0).rank, np.int32))


@converts("RANGE")
def range_(op: Operation) -> None:
    """a constant."""
    start, limit, step = (op.constant(i, w) for i, w in enumerate(("start", "limit", "step")))
    if not start.size == limit.size == step.size == 1 or step.reshape(-1)[0] == 0:
        raise ValueError("start, limit and step must be single numbers, and the step not zero")
    first, last, by = (array.reshape(-1)[0].item() for array in (start, limit, step))
    if not all(math.isfinite(number) for number in (first, last, by)):
        raise ValueError(f"a range from {first} to {last} by {by} has no end")
    count = max(math.ceil((last - first) / by), 0)
    type = TensorType(DType.of(start), (count,))
    op.reserve(type)
    op.give_constant((first + np.arange(count) * by).astype(type.dtype.numpy))


@converts("FILL")
def fill(op: Operation) -> None:
    """a constant."""
    sizes, value = op.integers(0, "shape"), op.constant(1, "value")
    if value.size != 1 or len(sizes) > 16:
        raise ValueError(f"cannot fill {list(sizes)} with {value.size} values")
    check_shape(sizes)
    op.reserve(TensorType(DType.of(value), sizes))
    op.give_constant(np.full(sizes, value.reshape(-1)[0], value.dtype))


@converts("ZEROS_LIKE")
def zeros_like(op: Operation) -> None:
    """a constant: all shapes are known."""
    op.reserve(op.input_type(0))
    op.give_constant(np.zeros(op.input_type(0).shape, op.input_type(0).dtype.numpy))


@converts("DENSIFY", moves=True)
def densify(op: Operation) -> None:
    """a constant: sparse weights are filled in while the model is read."""
    op.give_constant(op.constant(0, "weights"))

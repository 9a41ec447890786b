"""Operators whose results are known before anything runs."""

from __future__ import annotations

import math

import numpy as np

from fourfold.formats.budget import check_shape
from fourfold.formats.paddle.operation import Operation
from fourfold.formats.paddle.rule import converts
from fourfold.formats.refusal import Unconvertible
from fourfold.types import DType, Shape, TensorType

MOST_STEPS = 2**24


def _give_full(op: Operation, shape: Shape, value: float, dtype: DType) -> None:
    check_shape(shape)
    if not op.builder.budget.take(TensorType(dtype, shape)):
        raise Unconvertible(f"a constant of {list(shape)} is too large")
    op.give_constant(np.full(shape, value, dtype.numpy))


@converts("fill_constant")
def fill_constant(op: Operation) -> None:
    """a constant."""
    dtype = op.dtype("dtype")
    if dtype is None:
        raise Unconvertible("its element type is not known")
    text = op.text("str_value")
    value = float(text) if text else op.factor("value", "ValueTensor", 0.0)
    _give_full(op, op.sizes("shape", "ShapeTensor", "ShapeTensorList"), _fits(value, dtype), dtype)


def _fits(value: float, dtype: DType) -> float:
    """A number that the element type can hold."""
    if dtype.is_integer and not (math.isfinite(value) and abs(value) < 2**63):
        raise ValueError(f"{value} is no {dtype.value}")
    return int(value) if dtype.is_integer else value


@converts("fill_any_like", "fill_zeros_like")
def fill_like(op: Operation) -> None:
    """a constant of the shape of another value."""
    kind = op.input_type("X")
    dtype = op.dtype("dtype") or kind.dtype
    value = op.factor("value", "ValueTensor", 0.0)
    _give_full(op, kind.shape, _fits(value, dtype), dtype)


@converts("fill_constant_batch_size_like")
def fill_batch(op: Operation) -> None:
    """a constant with the batch of another value."""
    dtype, like = op.dtype("dtype") or DType.F32, op.input_type("Input").shape
    shape, source = list(op.integers("shape")), op.integer("input_dim_idx", 0)
    target = op.integer("output_dim_idx", 0)
    if not (0 <= source < len(like) and 0 <= target < len(shape)):
        raise ValueError(f"{shape} has no axis {target} for axis {source} of {list(like)}")
    shape[target] = like[source]
    text = op.text("str_value")
    value = float(text) if text else op.number("value", 0.0)
    _give_full(op, tuple(shape), _fits(value, dtype), dtype)


@converts("assign_value")
def assign_value(op: Operation) -> None:
    """a constant."""
    dtype = op.dtype("dtype") or DType.I64
    names = ("values", "int32_values", "fp32_values", "int64_values", "bool_values")
    name = next((one for one in names if op.record.attributes.get(one)), names[0])
    values = np.array([_fits(number, dtype) for number in op.numbers(name)], dtype.numpy)
    sizes = op.integers("shape") or (values.size,)
    if math.prod(sizes) != values.size:
        raise ValueError(f"{values.size} numbers do not fill {list(sizes)}")
    op.give_constant(values.reshape(sizes))


@converts("range")
def steps(op: Operation) -> None:
    """a constant."""
    first, end, step = (
        op.constant(op.input(name)).reshape(-1) for name in ("Start", "End", "Step")
    )
    if not first.size == end.size == step.size == 1 or not step[0]:
        raise ValueError("its start, end or step is not possible")
    if abs(float(end[0]) - float(first[0])) / abs(float(step[0])) > MOST_STEPS:
        raise ValueError(f"it would have more than {MOST_STEPS} steps")
    op.give_constant(np.arange(first[0], end[0], step[0]).astype(first.dtype))

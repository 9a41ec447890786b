"""Operators with constant results."""

from __future__ import annotations

import math

import numpy as np

from fourfold.formats.operator_nodes import give_full, give_range
from fourfold.formats.paddle.operation import Operation, converts
from fourfold.formats.rule_table import Unconvertible
from fourfold.types import DType, Shape


@converts("fill_constant")
def fill_constant(op: Operation) -> None:
    """a constant."""
    dtype = op.dtype("dtype")
    if dtype is None:
        raise Unconvertible("its element type is not supported")
    text = op.text("str_value")
    value = float(text) if text else op.factor("value", "ValueTensor", 0.0)
    _give_full(op, op.sizes("shape", "ShapeTensor", "ShapeTensorList"), value, dtype)


def _give_full(op: Operation, shape: Shape, value: float, dtype: DType) -> None:
    give_full(op, shape, np.array(_fits(value, dtype), dtype.numpy))


def _fits(value: float, dtype: DType) -> float:
    """Return the number in a form that the element type can hold."""
    if dtype.is_integer and not (math.isfinite(value) and abs(value) < 2**63):
        raise ValueError(f"{value} does not fit {dtype.value}")
    return int(value) if dtype.is_integer else value


@converts("fill_any_like", "fill_zeros_like")
def fill_like(op: Operation) -> None:
    """a constant in the shape of another value."""
    kind = op.input_type("X")
    dtype = op.dtype("dtype") or kind.dtype
    value = op.factor("value", "ValueTensor", 0.0)
    _give_full(op, kind.shape, value, dtype)


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
    _give_full(op, tuple(shape), value, dtype)


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
    give_range(op, *(op.constant(op.input(name)) for name in ("Start", "End", "Step")))

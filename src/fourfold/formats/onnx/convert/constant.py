"""Operators with constant results: constants, shapes, ranges."""

from __future__ import annotations

import numpy as np

from fourfold.formats.axes import axis_of
from fourfold.formats.onnx.operation import Operation, converts
from fourfold.formats.onnx.schema import Element, graph_dtype
from fourfold.formats.operator_nodes import give_full, give_range
from fourfold.formats.rule_table import Unconvertible
from fourfold.ops.slice import Slice
from fourfold.types import DType, TensorType


@converts("Constant")
def constant(op: Operation) -> None:
    """a constant."""
    final = op.output(0)
    if final is not None:
        op.builder.constant(final, _constant(op))


def _constant(op: Operation) -> np.ndarray:
    stored = op.tensor_attribute("value")
    if stored is not None:
        return stored
    if op.has("value_float"):
        return np.array(op.real_attribute("value_float", 0), np.float32)
    if op.has("value_int"):
        return np.array(op.attribute("value_int", 0), np.int64)
    if op.has("value_floats"):
        return np.array(op.real_list_attribute("value_floats"), np.float32)
    if op.has("value_ints"):
        return np.array(op.list_attribute("value_ints"), np.int64)
    if op.has("sparse_value"):
        raise Unconvertible("sparse constants are not supported")
    raise Unconvertible("it holds strings, or no value")


@converts("ConstantOfShape")
def constant_of_shape(op: Operation) -> None:
    """a constant, if the shape is one."""
    value = op.tensor_attribute("value")
    give_full(op, op.integers(0, "shape"), np.zeros(1, np.float32) if value is None else value)


@converts("Shape")
def shape(op: Operation) -> None:
    """a constant; all shapes are known."""
    sizes = op.input_type(0).shape
    start, end = op.attribute("start", 0), op.attribute("end", len(sizes))
    op.give_constant(np.array(sizes[slice(start, end)], np.int64))


@converts("Size")
def size(op: Operation) -> None:
    """a constant; all shapes are known."""
    op.give_constant(np.array(op.input_type(0).elements, np.int64))


@converts("Range")
def range_(op: Operation) -> None:
    """a constant, if its limits are."""
    give_range(op, *(op.constant(i, what) for i, what in enumerate(("start", "limit", "step"))))


@converts("EyeLike")
def eye_like(op: Operation) -> None:
    """a constant; all shapes are known."""
    x = op.input_type(0)
    if x.rank != 2:
        raise ValueError(f"{x} is not a matrix")
    dtype = graph_dtype(op.attribute("dtype", 0)) if op.has("dtype") else x.dtype
    if not dtype.has_numpy:
        raise Unconvertible(f"{dtype.value} values are not supported")
    op.reserve(x.with_dtype(dtype))
    rows, columns = x.shape
    op.give_constant(np.eye(rows, columns, op.attribute("k", 0), dtype.numpy))


@converts("HannWindow", "HammingWindow", "BlackmanWindow")
def window(op: Operation) -> None:
    """a constant, if its size is."""
    count, dtype = (
        op.integer(0, "size"),
        graph_dtype(op.attribute("output_datatype", Element.FLOAT)),
    )
    if count < 0 or not dtype.has_numpy:
        raise ValueError(f"a window of {count} {dtype.value} values is not valid")
    op.reserve(TensorType(dtype, (count,)))
    last = count if op.attribute("periodic", 1) else count - 1
    angles = 2 * np.pi * np.arange(count) / max(last, 1)
    weights = {
        "HannWindow": (0.5, -0.5, 0.0),
        "HammingWindow": (25 / 46, -21 / 46, 0.0),
        "BlackmanWindow": (0.42, -0.5, 0.08),
    }[op.record.op]
    rows = (weight * np.cos(order * angles) for order, weight in enumerate(weights))
    op.give_constant(np.asarray(sum(rows)).astype(dtype.numpy))


@converts("OneHot")
def one_hot(op: Operation) -> None:
    """equal to each index, then select; the depth must be constant."""
    depth, x = int(op.number(1, "depth") or 0), op.input_type(0)
    axis = axis_of(op.attribute("axis", -1), x.rank + 1)
    if depth < 1:
        raise ValueError(f"its depth of {depth} is not positive")
    values = op.input(2)
    if op.type_of(values).shape != (2,):
        raise ValueError(f"{op.type_of(values)} is not a pair of values")
    off, on = (_entry(op, values, index) for index in (0, 1))
    indices = op.converted(op.input(0), DType.I32, "whole")
    spread = op.reshaped(indices, (*x.shape[:axis], 1, *x.shape[axis:]), "spread")
    positions = np.arange(depth, dtype=np.int32).reshape(-1, *(1,) * (x.rank - axis))
    ahead = op.add("equal", spread, op.add_constant(positions, "places"), part="ahead")
    behind = op.add("equal", spread, op.add_constant(positions - depth, "negative"), part="behind")
    op.give("select", op.add("logical_or", ahead, behind, part="hit"), on, off)


def _entry(op: Operation, values: str, index: int) -> str:
    one = op.add("slice", values, attributes=Slice((index,), (1,), (1,)), part=f"value{index}")
    return op.reshaped(one, (), f"number{index}")

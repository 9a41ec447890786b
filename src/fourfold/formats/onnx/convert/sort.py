"""Operators that find the largest elements."""

from __future__ import annotations

import numpy as np

from fourfold.formats.axes import axis_of, inverse_order, last_order
from fourfold.formats.onnx.operation import Operation
from fourfold.formats.onnx.rule import converts
from fourfold.ops.arg_max import ArgMax
from fourfold.ops.gather_elements import GatherElements
from fourfold.ops.reshape import Reshape
from fourfold.ops.top_indices import TopIndices
from fourfold.types import DType, Shape


@converts("TopK")
def top_k(op: Operation) -> None:
    """top_indices along the last axis, and gather_elements for the values."""
    x, count = op.input_type(0), op.integer(1, "k")
    axis = axis_of(op.attribute("axis", -1), x.rank)
    order = last_order(axis, x.rank)
    back = inverse_order(order)
    turned = op.transposed(op.input(0), order, "last")
    ranked = turned
    if not op.attribute("largest", 1):
        ranked = turned_round(op, turned)
    indices = op.add("top_indices", ranked, attributes=TopIndices(count), part="indices")
    last = GatherElements(x.rank - 1)
    values = op.add("gather_elements", turned, indices, attributes=last, part="values")
    op.give_value(op.transposed(values, back, "values_back"))
    wide = op.converted(indices, DType.I64, "whole")
    op.give_value(op.transposed(wide, back, "indices_back"), 1)


def turned_round(op: Operation, value: str) -> str:
    """Return numbers in reverse order; -1 - x cannot overflow, unlike -x."""
    dtype = op.type_of(value).dtype
    if dtype.is_float:
        return op.add("negate", value, part="minus")
    return op.add(
        "sub", op.add_constant(np.array(-1, dtype.numpy), "minus_one"), value, part="minus"
    )


@converts("Hardmax")
def hardmax(op: Operation) -> None:
    """one at the position of arg_max, zero elsewhere."""
    x = op.input_type(0)
    axis = axis_of(op.attribute("axis", -1 if op.version >= 13 else 1), x.rank)
    shape: Shape = x.shape
    value = op.input(0)
    if op.version < 13:
        shape = (int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis:])))
        value, axis = op.reshaped(value, shape, "rows"), 1
    best = op.add("arg_max", value, attributes=ArgMax(axis, DType.I32, keep_dims=True), part="best")
    line = [1] * len(shape)
    line[axis] = shape[axis]
    positions = op.add_constant(np.arange(shape[axis], dtype=np.int32).reshape(line), "places")
    is_best = op.add("equal", best, positions, part="meant")
    one, zero = (
        op.add_constant(number, name, x.dtype) for number, name in ((1.0, "one"), (0.0, "zero"))
    )
    result = op.add("select", is_best, one, zero, part="hard")
    op.give("reshape", result, attributes=Reshape(x.shape))

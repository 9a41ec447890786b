"""Operators along axes: reductions, softmax, cumulative results, largest elements."""

from __future__ import annotations

import math

import numpy as np

from fourfold.formats.axes import axes_of, axis_of, give_along, inverse_order, last_order
from fourfold.formats.onnx.operation import Operation, converts
from fourfold.formats.operator_nodes import give_full
from fourfold.graph import NONE
from fourfold.ops.arg_max import ArgMax
from fourfold.ops.base.rules import Reduce
from fourfold.ops.cumprod import Cumprod
from fourfold.ops.cumsum import Cumsum
from fourfold.ops.gather_elements import GatherElements
from fourfold.ops.reshape import Reshape
from fourfold.ops.softmax import Softmax
from fourfold.ops.top_indices import TopIndices
from fourfold.types import DType, Shape

_PLAIN = {
    "ReduceMax": "reduce_max",
    "ReduceMean": "mean",
    "ReduceMin": "reduce_min",
    "ReduceProd": "reduce_prod",
    "ReduceSum": "sum",
}
_TRUTH = {**_PLAIN, "ReduceMax": "reduce_any", "ReduceMin": "reduce_all"}
# Ops applied to the elements before the sum, and to the sum.
_SUMS = {
    "ReduceL1": ("absolute", ""),
    "ReduceL2": ("square", "sqrt"),
    "ReduceLogSum": ("", "log"),
    "ReduceSumSquare": ("square", ""),
}
_SOFTMAX = {"LogSoftmax": ("log_softmax", NONE), "Softmax": ("softmax", Softmax())}


# Results of reducing an empty axis.
_EMPTY_RESULTS = {
    "ReduceLogSum": -math.inf,
    "ReduceLogSumExp": -math.inf,
    "ReduceMax": -math.inf,
    "ReduceMean": math.nan,
    "ReduceMin": math.inf,
    "ReduceProd": 1.0,
}


def _give_if_empty(op: Operation, attributes: Reduce | None) -> bool:
    """Write the neutral element and return True if a reduced axis is empty."""
    x = op.input_type(0)
    if attributes is None or all(x.shape[axis] for axis in attributes.axes):
        return False
    sizes = ((1 if axis in attributes.axes else size) for axis, size in enumerate(x.shape))
    shape = (
        tuple(sizes)
        if attributes.keep_dims
        else tuple(size for axis, size in enumerate(x.shape) if axis not in attributes.axes)
    )
    number = _EMPTY_RESULTS.get(op.record.op, 0.0)
    if x.dtype is DType.BOOL:
        number = number > 0
    elif x.dtype.is_integer and math.isinf(number):
        limits = np.iinfo(x.dtype.numpy)
        number = limits.max if number > 0 else limits.min
    give_full(op, shape, np.array(number, x.dtype.numpy))
    return True


def _reduce(op: Operation) -> Reduce | None:
    """Return the axes to reduce; None if there is nothing to do."""
    rank, axes = op.input_type(0).rank, op.list_or_input("axes", 1)
    if not axes:
        if op.attribute("noop_with_empty_axes", 0):
            return None
        axes = tuple(range(rank))
    return Reduce(axes_of(axes, rank), bool(op.attribute("keepdims", 1)))


@converts(*_PLAIN)
def reduce(op: Operation) -> None:
    """the op of the same meaning over constant axes."""
    attributes = _reduce(op)
    if attributes is None:
        op.give_value(op.input(0))
    elif not _give_if_empty(op, attributes):
        names = _TRUTH if op.input_type(0).dtype is DType.BOOL else _PLAIN
        op.give(names[op.record.op], op.input(0), attributes=attributes)


@converts(*_SUMS)
def reduce_sums(op: Operation) -> None:
    """sum, with pointwise ops before and after it."""
    before, after = _SUMS[op.record.op]
    attributes, value = _reduce(op), op.input(0)
    if _give_if_empty(op, attributes):
        return
    value = op.add(before, value, part="each") if before else value
    if attributes is not None:
        value = op.add("sum", value, attributes=attributes, part="sum")
    value = op.add(after, value, part="whole") if after else value
    op.give_value(value)


@converts("ReduceLogSumExp")
def reduce_log_sum_exp(op: Operation) -> None:
    """the maximum, plus the log of the sum of exponentials relative to it."""
    attributes, x = _reduce(op), op.input(0)
    if attributes is None:
        op.give_value(x)
        return
    if _give_if_empty(op, attributes):
        return
    reduction = Reduce(attributes.axes, keep_dims=True)
    largest = op.add("reduce_max", x, attributes=reduction, part="largest")
    power = op.add("exp", op.add("sub", x, largest, part="less"), part="power")
    total = op.add("log", op.add("sum", power, attributes=reduction, part="sum"), part="log")
    result = op.add("add", total, largest, part="whole")
    if not attributes.keep_dims:
        sizes = enumerate(op.type_of(result).shape)
        shape = tuple(size for axis, size in sizes if axis not in attributes.axes)
        result = op.reshaped(result, shape, "flat")
    op.give_value(result)


@converts("GlobalAveragePool", "GlobalMaxPool")
def global_pool(op: Operation) -> None:
    """mean or reduce_max over all but the first two axes."""
    name = "mean" if op.record.op == "GlobalAveragePool" else "reduce_max"
    axes = tuple(range(2, op.input_type(0).rank))
    op.give(name, op.input(0), attributes=Reduce(axes, keep_dims=True))


@converts("Softmax", "LogSoftmax")
def softmax(op: Operation) -> None:
    """softmax over the last axis; other axes are transposed."""
    name, attributes = _SOFTMAX[op.record.op]
    x = op.input_type(0)
    axis = axis_of(op.attribute("axis", -1 if op.version >= 13 else 1), max(x.rank, 1))
    if op.version < 13:
        rows = (math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))
        if rows[1] != x.channels:
            flat = op.reshaped(op.input(0), rows, "rows")
            flat = op.add(name, flat, attributes=attributes, part="softmax")
            op.give("reshape", flat, attributes=Reshape(x.shape))
            return
        axis = x.rank - 1
    give_along(op, name, op.input(0), axis, attributes)


@converts("ArgMax", "ArgMin")
def arg_max(op: Operation) -> None:
    """arg_max along an axis; for ArgMin, of the negated value."""
    x, value = op.input_type(0), op.input(0)
    axis = axis_of(op.attribute("axis", 0), x.rank)
    if op.record.op == "ArgMin":
        value = _reverse_order(op, value)
    keep, last = bool(op.attribute("keepdims", 1)), bool(op.attribute("select_last_index", 0))
    op.give("arg_max", value, attributes=ArgMax(axis, DType.I64, keep, last))


@converts("CumSum")
def cumsum(op: Operation) -> None:
    """cumsum along a constant axis."""
    axis = axis_of(op.integer(1, "axis"), op.input_type(0).rank)
    op.give(
        "cumsum",
        op.input(0),
        attributes=Cumsum(
            axis,
            exclusive=bool(op.attribute("exclusive", 0)),
            reverse=bool(op.attribute("reverse", 0)),
        ),
    )


@converts("CumProd")
def cumprod(op: Operation) -> None:
    """cumprod along a constant axis."""
    axis = axis_of(op.integer(1, "axis"), op.input_type(0).rank)
    op.give(
        "cumprod",
        op.input(0),
        attributes=Cumprod(
            axis,
            exclusive=bool(op.attribute("exclusive", 0)),
            reverse=bool(op.attribute("reverse", 0)),
        ),
    )


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
        ranked = _reverse_order(op, turned)
    indices = op.add("top_indices", ranked, attributes=TopIndices(count), part="indices")
    last = GatherElements(x.rank - 1)
    values = op.add("gather_elements", turned, indices, attributes=last, part="values")
    op.give_value(op.transposed(values, back, "values_back"))
    wide = op.converted(indices, DType.I64, "whole")
    op.give_value(op.transposed(wide, back, "indices_back"), 1)


def _reverse_order(op: Operation, value: str) -> str:
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

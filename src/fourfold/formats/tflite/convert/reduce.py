"""Operators that reduce axes: sums, means, extrema, softmax."""

from __future__ import annotations

from fourfold.formats.axes import axis_of
from fourfold.formats.tflite.operation import Operation
from fourfold.formats.tflite.options import (
    ArgMaxOptions,
    ArgMinOptions,
    ReducerOptions,
    SoftmaxOptions,
)
from fourfold.formats.tflite.rule import converts
from fourfold.formats.tflite.schema import element_type
from fourfold.op.rules import Reduce
from fourfold.ops.arg_max import ArgMax
from fourfold.ops.softmax import Softmax
from fourfold.types import DType

_REDUCE = {
    "MEAN": "mean",
    "REDUCE_ALL": "reduce_all",
    "REDUCE_ANY": "reduce_any",
    "REDUCE_MAX": "reduce_max",
    "REDUCE_MIN": "reduce_min",
    "REDUCE_PROD": "reduce_prod",
    "SUM": "sum",
}


@converts(*_REDUCE)
def reduce(op: Operation) -> None:
    """the op of the same meaning over constant axes."""
    rank = op.input_type(0).rank
    axes = {axis_of(axis, rank) for axis in op.integers(1, "axes")}
    attributes = Reduce(tuple(sorted(axes)), op.options(ReducerOptions).keep_dims)
    op.give(_REDUCE[op.record.op], op.input(0), attributes=attributes)


@converts("SOFTMAX")
def softmax(op: Operation) -> None:
    """softmax over the last axis."""
    op.give("softmax", op.input(0), attributes=Softmax(op.options(SoftmaxOptions).beta))


@converts("ARG_MAX")
def arg_max(op: Operation) -> None:
    """arg_max along a constant axis."""
    op.give("arg_max", op.input(0), attributes=_arg_max(op, ArgMaxOptions))


@converts("ARG_MIN")
def arg_min(op: Operation) -> None:
    """arg_max of the negated value, along a constant axis."""
    opposite = op.add("negate", op.input(0), part="negated")
    op.give("arg_max", opposite, attributes=_arg_max(op, ArgMinOptions))


def _arg_max(op: Operation, options: type[ArgMaxOptions | ArgMinOptions]) -> ArgMax:
    axis = axis_of(op.integer(1, "axis"), op.input_type(0).rank)
    found = op.declared[0].dtype
    if op.record.options is not None:
        found = element_type(op.options(options).output_type) or found
    if found not in (DType.I32, DType.I64):
        raise ValueError(f"its indices cannot be {found.value}")
    return ArgMax(axis, found)

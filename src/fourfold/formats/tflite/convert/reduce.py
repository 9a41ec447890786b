"""Operators that reduce axes: sums, means, extremes, softmax."""

from __future__ import annotations

from fourfold.formats.axes import axis_of
from fourfold.formats.tflite.operation import Operation
from fourfold.formats.tflite.options import ArgMaxOptions, ReducerOptions, SoftmaxOptions
from fourfold.formats.tflite.rule import converts
from fourfold.formats.tflite.schema import element_type
from fourfold.op.rules import Reduce
from fourfold.ops.arg_max import ArgMax
from fourfold.ops.softmax import Softmax
from fourfold.types import DType

_REDUCE = {"MEAN": "mean", "SUM": "sum", "REDUCE_MAX": "reduce_max", "REDUCE_MIN": "reduce_min"}


@converts(*_REDUCE)
def reduce(op: Operation) -> None:
    """the same op over constant axes."""
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
    axis = axis_of(op.integer(1, "axis"), op.input_type(0).rank)
    found = op.declared[0].dtype
    if op.record.options is not None:
        found = element_type(op.options(ArgMaxOptions).output_type) or found
    if found not in (DType.I32, DType.I64):
        raise ValueError(f"its indices cannot be {found.value}")
    op.give("arg_max", op.input(0), attributes=ArgMax(axis, found))

"""Operators along axes: reductions, softmax, cumulative sums, top-k, normalization."""

from __future__ import annotations

import numpy as np

from fourfold.formats.axes import axis_of
from fourfold.formats.tflite.operation import Operation, converts
from fourfold.formats.tflite.options import (
    ArgMaxOptions,
    ArgMinOptions,
    CumsumOptions,
    L2NormOptions,
    LocalResponseNormalizationOptions,
    OneHotOptions,
    ReducerOptions,
    SoftmaxOptions,
)
from fourfold.formats.tflite.schema import element_type
from fourfold.ops.arg_max import ArgMax
from fourfold.ops.base.rules import Reduce
from fourfold.ops.cumsum import Cumsum
from fourfold.ops.gather import Gather
from fourfold.ops.local_response import LocalResponse
from fourfold.ops.reshape import Reshape
from fourfold.ops.softmax import Softmax
from fourfold.ops.top_indices import TopIndices
from fourfold.types import DType, TensorType

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
    index_type = op.declared[0].dtype
    if op.record.options is not None:
        index_type = element_type(op.options(options).output_type) or index_type
    if index_type not in (DType.I32, DType.I64):
        raise ValueError(f"its indices cannot be {index_type.value}")
    return ArgMax(axis, index_type)


@converts("CUMSUM")
def cumsum(op: Operation) -> None:
    """cumsum along a constant axis."""
    options = op.options(CumsumOptions)
    axis = axis_of(op.integer(1, "axis"), op.input_type(0).rank)
    op.give("cumsum", op.input(0), attributes=Cumsum(axis, options.exclusive, options.reverse))


@converts("TOPK_V2")
def top_k(op: Operation) -> None:
    """top_indices, then gather for the values."""
    if len(op.outputs) != 2:
        raise ValueError(f"it has {len(op.outputs)} outputs, not 2")
    count = op.integer(1, "count")
    op.give("top_indices", op.input(0), attributes=TopIndices(count), output=1)
    last = op.input_type(0).rank - 1
    op.give("gather", op.input(0), op.outputs[1], attributes=Gather(last, last))


@converts("ONE_HOT")
def one_hot(op: Operation) -> None:
    """equal to a row of numbers, then select."""
    indices, depth = op.input_type(0), op.integer(1, "depth")
    if depth < 0:
        raise ValueError(f"its depth of {depth} is negative")
    axis = axis_of(op.options(OneHotOptions).axis, indices.rank + 1)
    op.reserve(TensorType(indices.dtype, (depth,)))
    numbers = np.arange(depth).astype(indices.dtype.numpy)
    row = op.add_constant(numbers.reshape(-1, *(1,) * (indices.rank - axis)), "numbers")
    wide = Reshape((*indices.shape[:axis], 1, *indices.shape[axis:]))
    spread = op.add("reshape", op.input(0), attributes=wide, part="spread")
    hot = op.add("equal", spread, row, part="hot")
    op.give("select", hot, op.weights(2), op.weights(3))


@converts("L2_NORMALIZATION")
def l2_normalization(op: Operation) -> None:
    """l2_normalize over the last axis."""
    op.give("l2_normalize", op.input(0), activation=op.options(L2NormOptions).activation)


@converts("LOG_SOFTMAX")
def log_softmax(op: Operation) -> None:
    """log_softmax over the last axis."""
    op.give("log_softmax", op.input(0))


@converts("LOCAL_RESPONSE_NORMALIZATION")
def local_response_normalization(op: Operation) -> None:
    """local_response over neighboring channels."""
    options = op.options(LocalResponseNormalizationOptions)
    attributes = LocalResponse(options.radius, options.bias, options.alpha, options.beta)
    op.give("local_response", op.input(0), attributes=attributes)

"""Operators that reduce axes or work along one."""

from __future__ import annotations

from fourfold.formats.along_axis import give_along
from fourfold.formats.axes import axis_of
from fourfold.formats.paddle.operation import Operation
from fourfold.formats.paddle.rule import converts
from fourfold.formats.refusal import Unconvertible
from fourfold.graph import NONE
from fourfold.op.rules import Reduce
from fourfold.ops.arg_max import ArgMax
from fourfold.ops.cumsum import Cumsum
from fourfold.ops.reshape import Reshape
from fourfold.ops.softmax import Softmax
from fourfold.types import DType

_REDUCE = {
    "reduce_mean": "mean",
    "reduce_sum": "sum",
    "reduce_max": "reduce_max",
    "reduce_min": "reduce_min",
    "reduce_prod": "reduce_prod",
    "reduce_any": "reduce_any",
    "reduce_all": "reduce_all",
}


@converts(*_REDUCE, "mean")
def reduce(op: Operation) -> None:
    """the op of the same meaning over constant axes."""
    x = op.input("X")
    rank = op.type_of(x).rank
    axes = {axis_of(axis, rank) for axis in op.sizes("dim", "AxisTensor")}
    if op.flag("reduce_all") or op.record.type == "mean" or not axes:
        axes = set(range(rank))
    attributes = Reduce(tuple(sorted(axes)), op.flag("keep_dim"))
    op.give(_REDUCE.get(op.record.type, "mean"), x, attributes=attributes)


@converts("softmax", "log_softmax")
def softmax(op: Operation) -> None:
    """softmax or log_softmax; other axes than the last are transposed."""
    x = op.input("X")
    axis = axis_of(op.integer("axis", -1), op.type_of(x).rank)
    plain = op.record.type == "softmax"
    give_along(op, op.record.type, x, axis, Softmax() if plain else NONE)


@converts("arg_max")
def arg_max(op: Operation) -> None:
    """arg_max."""
    x = op.input("X")
    dtype = op.dtype("dtype") or DType.I64
    if dtype not in (DType.I32, DType.I64):
        raise Unconvertible(f"its indices cannot be {dtype.value}")
    if op.flag("flatten"):
        flat = Reshape((op.type_of(x).elements,))
        x = op.add("reshape", x, attributes=flat, part="flat")
    axis = 0 if op.flag("flatten") else op.size("axis", "AxisTensor", -1)
    axis = axis_of(axis, op.type_of(x).rank)
    op.give("arg_max", x, attributes=ArgMax(axis, dtype, op.flag("keepdims")))


@converts("cumsum")
def cumsum(op: Operation) -> None:
    """cumsum."""
    x = op.input("X")
    if op.flag("flatten"):
        raise Unconvertible("flattening all axes is not supported")
    axis = axis_of(op.size("axis", "AxisTensor", -1), op.type_of(x).rank)
    attributes = Cumsum(axis, op.flag("exclusive"), op.flag("reverse"))
    op.give("cumsum", x, attributes=attributes)


@converts("p_norm")
def norm(op: Operation) -> None:
    """Euclidean norm: square, sum, sqrt."""
    x = op.input("X")
    if op.number("porder", 2.0) != 2.0:
        raise Unconvertible("only the norm of order 2 is supported")
    rank = op.type_of(x).rank
    axes = (axis_of(op.integer("axis", -1), rank),)
    attributes = Reduce(tuple(range(rank)) if op.flag("asvector") else axes, op.flag("keepdim"))
    squares = op.add("square", x, part="squares")
    op.give("sqrt", op.add("sum", squares, attributes=attributes, part="total"))

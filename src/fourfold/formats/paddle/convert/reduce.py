"""Operators that reduce, normalize or work along axes."""

from __future__ import annotations

import numpy as np

from fourfold.formats.axes import axis_of, give_along
from fourfold.formats.paddle.operation import Operation, converts
from fourfold.formats.rule_table import Unconvertible
from fourfold.graph import NONE
from fourfold.ops.arg_max import ArgMax
from fourfold.ops.base.rules import Reduce
from fourfold.ops.cumsum import Cumsum
from fourfold.ops.reshape import Reshape
from fourfold.ops.softmax import Softmax
from fourfold.types import DType, Shape


def _numbers(op: Operation, parameter: str, count: int) -> np.ndarray:
    array = op.known(op.input(parameter))
    if array is None:
        raise Unconvertible(f"its {parameter} is computed at run time")
    if array.size != count or array.dtype.kind != "f":
        raise ValueError(f"its {parameter} is {list(array.shape)}, expected [{count}]")
    return array.reshape(-1).astype(np.float64)


@converts("batch_norm", "sync_batch_norm", gives=("Y",))
def batch_norm(op: Operation) -> None:
    """mul and add per channel, folded into preceding convolutions."""
    x = op.input("X")
    kind = op.type_of(x)
    last = op.text("data_layout", op.text("data_format", "NCHW")).endswith("C")
    if kind.rank < 2:
        raise ValueError(f"{kind} has no channels")
    count = kind.shape[-1] if last else kind.shape[1]
    parameters = ("Mean", "Variance", "Scale", "Bias")
    mean, variance, scale, bias = (_numbers(op, name, count) for name in parameters)
    factor = scale / np.sqrt(variance + op.number("epsilon", 1e-5))
    offset = bias - mean * factor
    shape = (count,) if last else (count, *[1] * (kind.rank - 2))
    constants = [
        op.add_constant(array.astype(kind.dtype.numpy).reshape(shape), part)
        for array, part in ((factor, "factor"), (offset, "offset"))
    ]
    scaled = op.add("mul", x, constants[0], part="scaled")
    op.give("add", scaled, constants[1])


def _normalized(op: Operation, x: str, axes: tuple[int, ...], epsilon: float) -> str:
    """Subtract the mean and divide by the standard deviation."""
    attributes = Reduce(axes, keep_dims=True)
    mean = op.add("mean", x, attributes=attributes, part="mean")
    centred = op.add("sub", x, mean, part="centred")
    squares = op.add("square", centred, part="squares")
    variance = op.add("mean", squares, attributes=attributes, part="variance")
    safe = op.add("add", variance, op.scalar(epsilon, x, "epsilon"), part="safe")
    return op.add("mul", centred, op.add("rsqrt", safe, part="inverse"), part="normal")


def _give_scaled(op: Operation, x: str, shape: Shape) -> None:
    """Multiply by Scale and add Bias if present, each reshaped to `shape`."""
    for parameter, name in (("Scale", "mul"), ("Bias", "add")):
        value = op.optional(parameter)
        if value is not None:
            wide = op.add("reshape", value, attributes=Reshape(shape), part=parameter.lower())
            x = op.add(name, x, wide, part=f"{parameter.lower()}d")
    op.give("identity", x)


@converts("layer_norm", gives=("Y",))
def layer_norm(op: Operation) -> None:
    """normalization over all axes from one on, from basic ops."""
    x = op.input("X")
    shape, first = op.type_of(x).shape, op.integer("begin_norm_axis", 1)
    if not 0 < first < len(shape):
        raise ValueError(f"axis {first} is not one of {len(shape)} axes")
    normal = _normalized(op, x, tuple(range(first, len(shape))), op.number("epsilon", 1e-5))
    _give_scaled(op, normal, shape[first:])


@converts("instance_norm", gives=("Y",))
def instance_norm(op: Operation) -> None:
    """normalization over each channel of each image, from basic ops."""
    x = op.input("X")
    kind = op.type_of(x)
    if kind.rank < 3:
        raise ValueError(f"{kind} is not a batch of images")
    normal = _normalized(op, x, tuple(range(2, kind.rank)), op.number("epsilon", 1e-5))
    _give_scaled(op, normal, (kind.shape[1], *[1] * (kind.rank - 2)))


@converts("group_norm", gives=("Y",))
def group_norm(op: Operation) -> None:
    """normalization over channel groups of each image, from basic ops."""
    x, groups = op.input("X"), op.integer("groups", 1)
    kind = op.type_of(x)
    if op.text("data_layout", op.text("data_format", "NCHW")).endswith("C"):
        raise Unconvertible("its channels are the last axis")
    if kind.rank < 3 or groups < 1 or kind.shape[1] % groups:
        raise ValueError(f"{groups} groups do not divide the channels of {kind}")
    apart = Reshape((kind.shape[0], groups, kind.elements // (kind.shape[0] * groups)))
    rows = op.add("reshape", x, attributes=apart, part="groups")
    normal = _normalized(op, rows, (2,), op.number("epsilon", 1e-5))
    normalized = op.add("reshape", normal, attributes=Reshape(kind.shape), part="whole")
    _give_scaled(op, normalized, (kind.shape[1], *[1] * (kind.rank - 2)))


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

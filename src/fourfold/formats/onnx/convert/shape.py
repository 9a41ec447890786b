"""Operators that change only the shape or the type, or nothing."""

from __future__ import annotations

import math

import numpy as np

from fourfold.formats.axes import axes_of, axis_of
from fourfold.formats.batch import reshape_batch, reshape_literally
from fourfold.formats.budget import check_shape
from fourfold.formats.onnx.operation import Operation, converts
from fourfold.formats.onnx.schema import graph_dtype
from fourfold.formats.rule_table import Unconvertible
from fourfold.ops.cast import Cast
from fourfold.ops.reshape import Reshape
from fourfold.ops.tile import Tile
from fourfold.ops.transpose import Transpose
from fourfold.types import DType, Shape


@converts("Identity")
def identity(op: Operation) -> None:
    """identity."""
    op.give_value(op.input(0))


@converts("Dropout")
def dropout(op: Operation) -> None:
    """identity."""
    training = op.known(op.optional(2))
    if op.optional(2) is not None and (training is None or training.any()):
        raise Unconvertible("training mode is not supported")
    op.give_value(op.input(0))
    if op.output(1) is not None:
        type = op.input_type(0).with_dtype(DType.BOOL)
        op.reserve(type)
        op.give_constant(np.ones(type.shape, np.bool_), output=1)


@converts("Cast")
def cast(op: Operation) -> None:
    """cast; float16 becomes f32 in the graph."""
    _cast(op, graph_dtype(op.attribute("to", 0)))


@converts("CastLike")
def cast_like(op: Operation) -> None:
    """cast."""
    _cast(op, op.input_type(1).dtype)


def _cast(op: Operation, to: DType) -> None:
    if op.input_type(0).dtype is to:
        op.give_value(op.input(0))
    elif not to.has_numpy:
        raise Unconvertible(f"{to.value} values are not supported")
    else:
        op.give("cast", op.input(0), attributes=Cast(to))


@converts("Reshape")
def reshape(op: Operation) -> None:
    """reshape to a constant shape."""
    target, own = op.list_or_input("shape", 1), op.input_type(0).shape
    if target is None:
        raise ValueError("it has no shape")
    if not op.attribute("allowzero", 0):
        if any(size == 0 and axis >= len(own) for axis, size in enumerate(target)):
            raise ValueError(f"shape {list(target)} copies an axis that {list(own)} does not have")
        target = tuple(own[axis] if size == 0 else size for axis, size in enumerate(target))
    op.give("reshape", op.input(0), attributes=Reshape(_followed(op, target)))


def _followed(op: Operation, target: Shape) -> Shape:
    """Return the result shape of a reshape; its batch follows the caller's batch."""
    x, own = op.input_type(0), op.own_types.get(op.input(0))
    if own is None or not op.in_file(1):
        return reshape_literally(x, target).shape
    result = reshape_batch(x, own.shape, target, op.builder.batch_factor)
    op.change(1, result.target)
    return result.shape


@converts("Flatten")
def flatten(op: Operation) -> None:
    """reshape to a matrix."""
    x = op.input_type(0)
    axis = op.attribute("axis", 1)
    if not -x.rank <= axis <= x.rank:
        raise ValueError(f"axis {axis} is not one of {x.rank}")
    axis = axis + x.rank if axis < 0 else axis
    shape = (math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))
    op.give("reshape", op.input(0), attributes=Reshape(shape))


@converts("Squeeze")
def squeeze(op: Operation) -> None:
    """reshape that removes axes of size one."""
    x, requested = op.input_type(0), op.list_or_input("axes", 1)
    axes = (
        tuple(axis for axis, size in enumerate(x.shape) if size == 1)
        if requested is None
        else axes_of(requested, x.rank)
    )
    if any(x.shape[axis] != 1 for axis in axes):
        raise ValueError(f"axes {list(axes)} of {x} are not all of size one")
    shape = tuple(size for axis, size in enumerate(x.shape) if axis not in axes)
    op.give("reshape", op.input(0), attributes=Reshape(shape))


@converts("Unsqueeze")
def unsqueeze(op: Operation) -> None:
    """reshape that inserts axes of size one."""
    x, requested = op.input_type(0), op.list_or_input("axes", 1)
    if requested is None:
        raise ValueError("it has no axes")
    axes, sizes = axes_of(requested, x.rank + len(requested)), iter(x.shape)
    shape = tuple(1 if axis in axes else next(sizes) for axis in range(x.rank + len(axes)))
    op.give("reshape", op.input(0), attributes=Reshape(shape))


@converts("Transpose")
def transpose(op: Operation) -> None:
    """transpose."""
    rank, order = op.input_type(0).rank, op.list_attribute("perm")
    permutation = tuple(reversed(range(rank))) if order is None else order
    axes = tuple(axis_of(axis, rank) for axis in permutation)
    op.give("transpose", op.input(0), attributes=Transpose(axes))


@converts("Expand")
def expand(op: Operation) -> None:
    """a reshape to the rank of the result, then tile."""
    target = op.integers(1, "shape")
    check_shape(target)
    op.give_value(broadcast_to(op, op.input(0), target))


def broadcast_to(op: Operation, value: str, target: Shape) -> str:
    """Broadcast a value and a target shape to each other."""
    x = op.type_of(value)
    rank = max(x.rank, len(target))
    own = (1,) * (rank - x.rank) + x.shape
    padded = (1,) * (rank - len(target)) + target
    pairs = list(zip(own, padded, strict=True))
    if any(1 not in pair and pair[0] != pair[1] for pair in pairs):
        raise ValueError(f"{x} cannot be broadcast to {list(target)}")
    if 0 in own or 0 in padded:
        raise Unconvertible("its result is empty")
    multiples = tuple(max(size // mine, 1) for mine, size in pairs)
    value = op.reshaped(value, own, "rank")
    if all(count == 1 for count in multiples):
        return value
    check_shape(tuple(size * count for size, count in zip(own, multiples, strict=True)))
    return op.add("tile", value, attributes=Tile(multiples), part="spread")


@converts("Tile")
def tile(op: Operation) -> None:
    """tile by constant multiples."""
    multiples = op.integers(1, "repeats")
    op.give("tile", op.input(0), attributes=Tile(multiples))

"""Operators that change only the shape, and constant results: shapes, ranges, dense weights."""

from __future__ import annotations

import numpy as np

from fourfold.formats.axes import axis_of
from fourfold.formats.batch import reshape_batch, reshape_literally
from fourfold.formats.operator_nodes import give_full, give_range
from fourfold.formats.tflite.operation import Operation, converts
from fourfold.formats.tflite.options import (
    PackOptions,
    ReshapeOptions,
    ShapeOptions,
    SqueezeOptions,
    UnpackOptions,
)
from fourfold.formats.tflite.schema import element_type
from fourfold.ops.concat import Concat
from fourfold.ops.reshape import Reshape
from fourfold.ops.slice import Slice
from fourfold.types import DType, Shape


@converts("RESHAPE", moves=True)
def reshape(op: Operation) -> None:
    """reshape to a constant shape."""
    op.give("reshape", op.input(0), attributes=Reshape(_resolve(op, _target(op))))


def _target(op: Operation) -> Shape:
    """Return the requested shape; old files store it in the options, and write [0] for a scalar."""
    if op.optional(1) is not None:
        return op.integers(1, "shape")
    if op.record.options is None:
        return op.declared[0].shape
    shape = op.options(ReshapeOptions).new_shape
    return () if shape == (0,) and op.input_type(0).elements == 1 else shape


def _resolve(op: Operation, target: Shape) -> Shape:
    """Fill in -1, and let an axis follow a batch that the caller changed."""
    x, own = op.input_type(0), op.own_shape(0)
    in_file = op.optional(1) is None or op.in_file(1)
    factor = op.builder.batch_factor
    result = reshape_batch(x, own, target, factor) if in_file else reshape_literally(x, target)
    op.change(1, result.target)
    return result.shape


@converts("SQUEEZE", moves=True)
def squeeze(op: Operation) -> None:
    """reshape that removes axes of size one."""
    x = op.input_type(0)
    chosen = {axis_of(axis, x.rank) for axis in op.options(SqueezeOptions).squeeze_dims}
    axes = chosen or {axis for axis, size in enumerate(x.shape) if size == 1}
    if any(x.shape[axis] != 1 for axis in axes):
        raise ValueError(f"axes {sorted(axes)} of {x} are not all of size one")
    shape = tuple(size for axis, size in enumerate(x.shape) if axis not in axes)
    op.give("reshape", op.input(0), attributes=Reshape(shape))


@converts("EXPAND_DIMS", moves=True)
def expand_dims(op: Operation) -> None:
    """reshape that inserts an axis of size one."""
    shape = op.input_type(0).shape
    axis = axis_of(op.integer(1, "axis"), len(shape) + 1)
    op.give("reshape", op.input(0), attributes=Reshape((*shape[:axis], 1, *shape[axis:])))


@converts("PACK")
def pack(op: Operation) -> None:
    """a reshape of each value, then concat."""
    shape = op.input_type(0).shape
    axis = axis_of(op.options(PackOptions).axis, len(shape) + 1)
    attributes = Reshape((*shape[:axis], 1, *shape[axis:]))
    values = tuple(op.weights(index) for index in range(len(op.inputs)))
    types = {str(op.type_of(value)) for value in values}
    if len(types) != 1:
        raise ValueError(f"its inputs differ: {' and '.join(sorted(types))}")
    if len(values) == 1:
        op.give("reshape", values[0], attributes=attributes)
        return
    parts = [
        op.add("reshape", value, attributes=attributes, part=f"part{i}")
        for i, value in enumerate(values)
    ]
    op.give("concat", *parts, attributes=Concat(axis))


@converts("UNPACK")
def unpack(op: Operation) -> None:
    """one slice per output, then reshape."""
    x = op.input_type(0)
    axis = axis_of(op.options(UnpackOptions).axis, x.rank)
    if x.shape[axis] != len(op.outputs):
        raise ValueError(f"axis {axis} of {x} cannot be unpacked to {len(op.outputs)} outputs")
    size = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    for index in range(len(op.outputs)):
        begin = tuple(index if i == axis else 0 for i in range(x.rank))
        part = Slice(begin, size, (1,) * x.rank)
        value = op.add("slice", op.input(0), attributes=part, part=f"part{index}")
        op.give("reshape", value, attributes=Reshape(shape), output=index)


@converts("SHAPE")
def shape(op: Operation) -> None:
    """a constant; all shapes are known."""
    kind = element_type(op.options(ShapeOptions).out_type)
    wide = kind is DType.I64 or op.declared[0].dtype is DType.I64
    op.give_constant(np.array(op.input_type(0).shape, np.int64 if wide else np.int32))


@converts("RANK")
def rank(op: Operation) -> None:
    """a constant; all shapes are known."""
    op.give_constant(np.array(op.input_type(0).rank, np.int32))


@converts("RANGE")
def range_(op: Operation) -> None:
    """a constant."""
    give_range(op, *(op.constant(i, what) for i, what in enumerate(("start", "limit", "step"))))


@converts("FILL")
def fill(op: Operation) -> None:
    """a constant."""
    give_full(op, op.integers(0, "shape"), op.constant(1, "value"))


@converts("ZEROS_LIKE")
def zeros_like(op: Operation) -> None:
    """a constant; all shapes are known."""
    x = op.input_type(0)
    give_full(op, x.shape, np.zeros((), x.dtype.numpy))


@converts("DENSIFY", moves=True)
def densify(op: Operation) -> None:
    """a constant; sparse weights are filled in while reading."""
    op.give_constant(op.constant(0, "weights"))

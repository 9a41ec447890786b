"""Operators that change the shape alone: reshape, squeeze, and packs of values."""

from __future__ import annotations

import math

from fourfold.formats.tflite.convert._operation import Operation, axis_of
from fourfold.formats.tflite.convert._registry import converts
from fourfold.formats.tflite.options import (
    PackOptions,
    ReshapeOptions,
    SqueezeOptions,
    UnpackOptions,
)
from fourfold.ops.concat import Concat
from fourfold.ops.reshape import Reshape
from fourfold.ops.slice import Slice
from fourfold.types import Shape, TensorType


@converts("RESHAPE", moves=True)
def reshape(op: Operation) -> None:
    """reshape to a constant shape."""
    op.give("reshape", op.input(0), attributes=Reshape(_resolve(op, _target(op))))


def _target(op: Operation) -> Shape:
    """The shape asked for. Old files keep it in the options, and write [0] for a scalar."""
    if op.optional(1) is not None:
        return op.integers(1, "shape")
    if op.record.options is None:
        return op.declared[0].shape
    shape = op.options(ReshapeOptions).new_shape
    return () if shape == (0,) and op.input_type(0).elements == 1 else shape


def _resolve(op: Operation, target: Shape) -> Shape:
    """Fills in -1, and lets an axis follow a batch that the caller has changed.

    Where nothing but the batch was changed, it stays in an axis of its own even if the file would
    have it elsewhere: what is [1, -1, 4] for one image is [3, -1, 4] for three of them.
    """
    x, own, axis = op.input_type(0), op.own_shape(0), op.batch_axis(0)
    if target.count(-1) > 1 or min(target, default=0) < -1 or len(target) > 16:
        raise ValueError(f"shape {list(target)} is not possible")
    filled, fixed = _fill(x.elements, target), op.optional(1) is None or op.in_file(1)
    if axis is None and filled is None and x.shape[1:] == own[1:]:
        axis = 0  # the leading size alone is another one
    if axis is None or not fixed:
        op.change(1, target)
        return _checked(filled, x, target)
    before = _checked(_fill(math.prod(own), target), x, target)
    apart = len(before) > axis and before[:axis] == own[:axis]
    size, rest = divmod(before[axis] * x.shape[axis], own[axis]) if apart else (0, 1)
    if rest:
        _checked(filled, x, target)
        raise ValueError(f"axis {axis} of {x} does not stay apart in {list(target)}")
    asked = -1 if target[axis] == -1 else size
    op.change(1, (*target[:axis], asked, *target[axis + 1 :]))
    return (*before[:axis], size, *before[axis + 1 :])


def _fill(elements: int, target: Shape) -> Shape | None:
    """The target with its -1 filled in; None where it does not have so many elements."""
    others = math.prod(size for size in target if size != -1)
    if -1 not in target:
        return target if others == elements else None
    if others == 0 or elements % others:
        return None
    return tuple(elements // others if size == -1 else size for size in target)


def _checked(shape: Shape | None, x: TensorType, target: Shape) -> Shape:
    if shape is None:
        raise ValueError(f"{x} has {x.elements} elements, which do not fill {list(target)}")
    return shape


@converts("SQUEEZE", moves=True)
def squeeze(op: Operation) -> None:
    """reshape without the axes of size one."""
    x = op.input_type(0)
    chosen = {axis_of(axis, x.rank) for axis in op.options(SqueezeOptions).squeeze_dims}
    axes = chosen or {axis for axis, size in enumerate(x.shape) if size == 1}
    if any(x.shape[axis] != 1 for axis in axes):
        raise ValueError(f"axes {sorted(axes)} of {x} are not all of size one")
    shape = tuple(size for axis, size in enumerate(x.shape) if axis not in axes)
    op.give("reshape", op.input(0), attributes=Reshape(shape))


@converts("EXPAND_DIMS", moves=True)
def expand_dims(op: Operation) -> None:
    """reshape with one more axis of size one."""
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
    """a slice for each output, then reshape."""
    x = op.input_type(0)
    axis = axis_of(op.options(UnpackOptions).axis, x.rank)
    if x.shape[axis] != len(op.outputs):
        raise ValueError(f"axis {axis} of {x} does not make {len(op.outputs)} outputs")
    size = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    for index in range(len(op.outputs)):
        begin = tuple(index if i == axis else 0 for i in range(x.rank))
        part = Slice(begin, size, (1,) * x.rank)
        value = op.add("slice", op.input(0), attributes=part, part=f"part{index}")
        op.give("reshape", value, attributes=Reshape(shape), output=index)

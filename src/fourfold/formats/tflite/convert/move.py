"""Operators that move elements: concat, transpose, pad, gather."""

from __future__ import annotations

import numpy as np

from fourfold.formats.axes import axis_of
from fourfold.formats.tflite.operation import Operation
from fourfold.formats.tflite.options import (
    ConcatenationOptions,
    GatherOptions,
    MirrorPadOptions,
)
from fourfold.formats.tflite.rule import converts
from fourfold.formats.tflite.schema import REFLECT, SYMMETRIC
from fourfold.ops.concat import Concat
from fourfold.ops.gather import Gather
from fourfold.ops.mirror_pad import MirrorPad
from fourfold.ops.pad import Pad
from fourfold.ops.tile import Tile
from fourfold.ops.transpose import Transpose

Sides = tuple[tuple[int, ...], tuple[int, ...]]


@converts("CONCATENATION")
def concatenation(op: Operation) -> None:
    """concat, with the fused activation after it."""
    options = op.options(ConcatenationOptions)
    axis = axis_of(options.axis, op.input_type(0).rank)
    # An empty list of sizes may occur in computed shapes; it adds nothing.
    values = tuple(op.weights(index) for index in range(len(op.inputs)))
    parts = [value for value in values if op.type_of(value).elements] or list(values[:1])
    op.give("concat", *parts, attributes=Concat(axis), activation=options.activation)


@converts("TRANSPOSE", moves=True)
def transpose(op: Operation) -> None:
    """transpose by a constant permutation."""
    rank = op.input_type(0).rank
    permutation = tuple(axis_of(axis, rank) for axis in op.integers(1, "permutation"))
    op.give("transpose", op.input(0), attributes=Transpose(permutation))


@converts("TILE")
def tile(op: Operation) -> None:
    """tile by constant multiples."""
    op.give("tile", op.input(0), attributes=Tile(op.integers(1, "multiples")))


def _sides(op: Operation) -> Sides:
    """Return the padding before and after each axis."""
    amounts = op.integers(1, "paddings")
    if op.input_type(1).shape != (op.input_type(0).rank, 2):
        raise ValueError(f"paddings {op.input_type(1)} do not fit {op.input_type(0)}")
    return amounts[0::2], amounts[1::2]


@converts("PAD")
def pad(op: Operation) -> None:
    """pad with zeros."""
    before, after = _sides(op)
    op.give("pad", op.input(0), attributes=Pad(before, after, 0.0))


@converts("PADV2")
def pad_v2(op: Operation) -> None:
    """pad with a constant."""
    before, after = _sides(op)
    value = op.constant(2, "value")
    if value.size != 1:
        raise ValueError(f"its value has {value.size} elements, not one")
    op.give("pad", op.input(0), attributes=Pad(before, after, float(value.reshape(-1)[0])))


@converts("MIRROR_PAD")
def mirror_pad(op: Operation) -> None:
    """mirror_pad, with or without repeating the edge."""
    mode = op.options(MirrorPadOptions).mode
    if mode not in (REFLECT, SYMMETRIC):
        raise ValueError(f"mode {mode} is neither REFLECT nor SYMMETRIC")
    before, after = _sides(op)
    op.give("mirror_pad", op.input(0), attributes=MirrorPad(before, after, mode == REFLECT))


@converts("GATHER")
def gather(op: Operation) -> None:
    """gather along an axis."""
    options = op.options(GatherOptions)
    axis = axis_of(options.axis, op.input_type(0).rank)
    batch = axis_of(options.batch_dims, op.input_type(1).rank + 1)
    indices = op.input(1)
    if indices in op.builder.constants:
        _check_indices(op.builder.constants[indices], op.input_type(0).shape[axis])
    op.give("gather", op.weights(0), indices, attributes=Gather(axis, batch))


def _check_indices(indices: np.ndarray, size: int) -> None:
    if indices.size and not (indices.min() >= 0 and indices.max() < size):
        raise ValueError(f"its indices are out of range for an axis of {size}")

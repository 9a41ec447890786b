"""Gather, scatter, reverse and block operators."""

from __future__ import annotations

import numpy as np

from fourfold.formats.axes import axis_of
from fourfold.formats.budget import check_shape
from fourfold.formats.tflite.operation import Operation
from fourfold.formats.tflite.options import ReverseSequenceOptions
from fourfold.formats.tflite.rule import converts
from fourfold.ops.batch_to_space import BatchToSpace
from fourfold.ops.gather import Gather
from fourfold.ops.reshape import Reshape
from fourfold.ops.reverse_sequence import ReverseSequence
from fourfold.ops.scatter_nd import ScatterNd
from fourfold.ops.slice import Slice
from fourfold.ops.space_to_batch import SpaceToBatch
from fourfold.ops.tile import Tile
from fourfold.types import Shape


def _check_index_rows(op: Operation, index: int, shape: Shape) -> None:
    """Raise ValueError if constant index rows are out of range."""
    array = op.builder.constants.get(op.input(index))
    if array is None or not array.size or not 0 < array.shape[-1] <= len(shape):
        return
    limits = np.array(shape[: array.shape[-1]])
    if (array < 0).any() or (array >= limits).any():
        raise ValueError(f"its indices are out of range for {list(shape)}")


@converts("GATHER_ND")
def gather_nd(op: Operation) -> None:
    """gather_nd."""
    _check_index_rows(op, 1, op.input_type(0).shape)
    op.give("gather_nd", op.weights(0), op.input(1))


@converts("SCATTER_ND")
def scatter_nd(op: Operation) -> None:
    """scatter_nd into a constant shape."""
    shape = op.integers(2, "shape")
    check_shape(shape)
    _check_index_rows(op, 0, shape)
    op.give("scatter_nd", op.input(0), op.weights(1), attributes=ScatterNd(shape))


@converts("EMBEDDING_LOOKUP", weights=True)
def embedding_lookup(op: Operation) -> None:
    """gather of rows."""
    op.give("gather", op.weights(1), op.input(0), attributes=Gather())


@converts("BROADCAST_TO")
def broadcast_to(op: Operation) -> None:
    """a reshape to the rank of the result, then tile."""
    x, shape = op.input_type(0), op.integers(1, "shape")
    padded = (1,) * (len(shape) - x.rank) + x.shape
    check_shape(shape)
    fits = len(padded) == len(shape) and all(
        size in (1, target) for size, target in zip(padded, shape, strict=True)
    )
    if not fits or 0 in shape:
        raise ValueError(f"{x} cannot be broadcast to {list(shape)}")
    value = op.add("reshape", op.weights(0), attributes=Reshape(padded), part="rank")
    multiples = tuple(target // size for size, target in zip(padded, shape, strict=True))
    op.give("tile", value, attributes=Tile(multiples))


@converts("REVERSE_V2")
def reverse(op: Operation) -> None:
    """slice with negative steps along constant axes."""
    x = op.input_type(0)
    axes = {axis_of(axis, x.rank) for axis in op.integers(1, "axes")}
    begin = tuple(size - 1 if axis in axes else 0 for axis, size in enumerate(x.shape))
    strides = tuple(-1 if axis in axes else 1 for axis in range(x.rank))
    op.give("slice", op.input(0), attributes=Slice(begin, x.shape, strides))


@converts("REVERSE_SEQUENCE")
def reverse_sequence(op: Operation) -> None:
    """reverse_sequence."""
    options, rank = op.options(ReverseSequenceOptions), op.input_type(0).rank
    axis, batch = axis_of(options.seq_dim, rank), axis_of(options.batch_dim, rank)
    op.give("reverse_sequence", op.input(0), op.input(1), attributes=ReverseSequence(axis, batch))


def _blocks(op: Operation) -> tuple[Shape, Shape, Shape]:
    """Return the block size, and padding or cropping before and after."""
    block, around = op.integers(1, "block"), op.integers(2, "paddings or crops")
    if len(around) != 2 * len(block):
        raise ValueError(f"{around} does not fit blocks of {block}")
    return block, around[0::2], around[1::2]


@converts("SPACE_TO_BATCH_ND")
def space_to_batch(op: Operation) -> None:
    """space_to_batch by constant blocks."""
    op.give("space_to_batch", op.input(0), attributes=SpaceToBatch(*_blocks(op)))


@converts("BATCH_TO_SPACE_ND")
def batch_to_space(op: Operation) -> None:
    """batch_to_space by constant blocks."""
    op.give("batch_to_space", op.input(0), attributes=BatchToSpace(*_blocks(op)))

"""Operators that move elements: concat, transpose, pad, gather, scatter, reverse, blocks."""

from __future__ import annotations

from fourfold.formats.axes import axis_of
from fourfold.formats.budget import check_shape
from fourfold.formats.tflite.operation import Operation, converts
from fourfold.formats.tflite.options import (
    ConcatenationOptions,
    GatherOptions,
    MirrorPadOptions,
    ReverseSequenceOptions,
)
from fourfold.formats.tflite.schema import REFLECT, SYMMETRIC
from fourfold.ops.batch_to_space import BatchToSpace
from fourfold.ops.concat import Concat
from fourfold.ops.gather import Gather
from fourfold.ops.gather_nd import GatherNd
from fourfold.ops.mirror_pad import MirrorPad
from fourfold.ops.pad import Pad
from fourfold.ops.reshape import Reshape
from fourfold.ops.reverse_sequence import ReverseSequence
from fourfold.ops.scatter_nd import ScatterNd
from fourfold.ops.slice import Slice
from fourfold.ops.space_to_batch import SpaceToBatch
from fourfold.ops.tile import Tile
from fourfold.ops.transpose import Transpose
from fourfold.types import Shape

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
    op.give("gather", op.weights(0), op.input(1), attributes=Gather(axis, batch))


@converts("GATHER_ND")
def gather_nd(op: Operation) -> None:
    """gather_nd."""
    op.give("gather_nd", op.weights(0), op.input(1), attributes=GatherNd())


@converts("SCATTER_ND")
def scatter_nd(op: Operation) -> None:
    """scatter_nd into a constant shape."""
    shape = op.integers(2, "shape")
    check_shape(shape)
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

"""Ops that move elements: concat, transpose, pad, slice, reshape, blocks, gather, scatter."""

from __future__ import annotations

from fourfold.formats.tflite.schema import REFLECT, SYMMETRIC, TYPES
from fourfold.formats.tflite.write_graph.draft import Tensor
from fourfold.formats.tflite.write_graph.node_writer import NARROW, Grids, NodeWriter, writes
from fourfold.ops.batch_to_space import BatchToSpace
from fourfold.ops.concat import Concat
from fourfold.ops.gather import Gather
from fourfold.ops.kernels.move import Block
from fourfold.ops.mirror_pad import MirrorPad
from fourfold.ops.pad import Pad
from fourfold.ops.reshape import Reshape
from fourfold.ops.reverse_sequence import ReverseSequence
from fourfold.ops.scatter_nd import ScatterNd
from fourfold.ops.slice import Slice
from fourfold.ops.space_to_batch import SpaceToBatch
from fourfold.ops.tile import Tile
from fourfold.ops.transpose import Transpose
from fourfold.types import DType, Shape


@writes("concat", grids=Grids.SAME, fuses=True)
def concat(to: NodeWriter) -> None:
    """CONCATENATION."""
    axis = to.attributes(Concat).axis
    to.give("CONCATENATION", to.all_inputs(), axis=axis, activation=to.activation)


@writes("reshape", grids=Grids.SAME)
def reshape(to: NodeWriter) -> None:
    """RESHAPE; its first axis is dynamic if the batch is."""
    x, shape = to.input(0), to.attributes(Reshape).shape
    target = _with_dynamic_batch(shape) if to.open_batch and x.shape[:1] == shape[:1] else shape
    to.give("RESHAPE", [x, to.shape(target)], new_shape=target)


def _with_dynamic_batch(shape: Shape) -> Shape:
    return (-1, *shape[1:]) if 0 not in shape[1:] else shape


@writes("transpose", grids=Grids.SAME)
def transpose(to: NodeWriter) -> None:
    """TRANSPOSE."""
    if not to.type(0).shape:
        to.give_tensor(to.input(0))
        return
    order = to.integers(to.attributes(Transpose).permutation, "order")
    to.give("TRANSPOSE", [to.input(0), order])


@writes("planes_to_pixels", grids=Grids.SAME)
def planes_to_pixels(to: NodeWriter) -> None:
    """TRANSPOSE of the channels to the end."""
    rank = to.type(0).rank
    to.give("TRANSPOSE", [to.input(0), to.integers((0, *range(2, rank), 1), "order")])


@writes("pixels_to_planes", grids=Grids.SAME)
def pixels_to_planes(to: NodeWriter) -> None:
    """TRANSPOSE of the channels to the second axis."""
    rank = to.type(0).rank
    to.give("TRANSPOSE", [to.input(0), to.integers((0, rank - 1, *range(1, rank - 1)), "order")])


@writes("tile", grids=Grids.SAME)
def tile(to: NodeWriter) -> None:
    """TILE."""
    multiples = to.integers(to.attributes(Tile).multiples, "multiples")
    to.give("TILE", [to.input(0), multiples])


def _paddings(to: NodeWriter, attributes: Pad | MirrorPad) -> Tensor:
    return to.integers(_pairs(attributes.before, attributes.after), "paddings")


def _pairs(before: Shape, after: Shape) -> list[tuple[int, int]]:
    return list(zip(before, after, strict=True))


@writes("pad", grids=Grids.SAME)
def pad(to: NodeWriter) -> None:
    """PAD, or PADV2 for a value other than zero."""
    attributes, x = to.attributes(Pad), to.input(0)
    if not x.shape:
        to.give_tensor(x)
        return
    amounts = _paddings(to, attributes)
    if attributes.value == 0:
        to.give("PAD", [x, amounts])
        return
    to.give("PADV2", [x, amounts, to.number(attributes.value, x, "outside")])


@writes("mirror_pad", grids=Grids.SAME)
def mirror_pad(to: NodeWriter) -> None:
    """MIRROR_PAD."""
    attributes, x = to.attributes(MirrorPad), to.input(0)
    if not x.shape:
        to.give_tensor(x)
        return
    amounts = _paddings(to, attributes)
    mode = REFLECT if attributes.reflect else SYMMETRIC
    to.give("MIRROR_PAD", [x, amounts], mode=mode)


@writes("slice", grids=Grids.SAME)
def slice_(to: NodeWriter) -> None:
    """SLICE, or STRIDED_SLICE for steps other than one."""
    attributes, x = to.attributes(Slice), to.input(0)
    if not x.shape:
        to.give_tensor(x)
        return
    begin = to.integers(attributes.begin, "begin")
    if set(attributes.strides) == {1}:
        takes_batch = (
            to.open_batch and attributes.begin[0] == 0 and attributes.size[0] == x.shape[0]
        )
        size = (-1, *attributes.size[1:]) if takes_batch else attributes.size
        to.give("SLICE", [x, begin, to.integers(size, "size")])
        return
    stops, mask = [], 0
    cuts = zip(attributes.begin, attributes.size, attributes.strides, strict=True)
    for axis, (first, count, stride) in enumerate(cuts):
        last = first + (count - 1) * stride
        end = last + (1 if stride > 0 else -1)
        # An end of -1 would count from the back.
        mask |= (1 << axis) if end < 0 else 0
        stops.append(max(end, 0))
    strides = to.integers(attributes.strides, "strides")
    to.give("STRIDED_SLICE", [x, begin, to.integers(stops, "end"), strides], end_mask=mask)


@writes("depth_to_space", "space_to_depth", grids=Grids.SAME, integers=NARROW)
def blocks(to: NodeWriter) -> None:
    """DEPTH_TO_SPACE or SPACE_TO_DEPTH."""
    to.give(to.node.op.upper(), [to.input(0)], block_size=to.attributes(Block).size)


@writes("space_to_batch", "batch_to_space", grids=Grids.SAME)
def batches(to: NodeWriter) -> None:
    """SPACE_TO_BATCH_ND or BATCH_TO_SPACE_ND."""
    attributes = to.node.attributes
    assert isinstance(attributes, SpaceToBatch | BatchToSpace)
    # The operators require a number for every axis between the first and the last.
    missing = to.type(0).rank - 2 - len(attributes.block)
    if missing < 0 or to.type(0).rank not in (3, 4):
        raise to.refuse(f"TFLite cannot split {to.type(0)} into these blocks")
    ones, zeros = (1,) * missing, (0,) * missing
    block = to.integers(attributes.block + ones, "block")
    around = _pairs(attributes.before + zeros, attributes.after + zeros)
    to.give(f"{to.node.op.upper()}_ND", [to.input(0), block, to.integers(around, "around")])


@writes("gather", grids=Grids.SAME)
def gather(to: NodeWriter) -> None:
    """GATHER."""
    a = to.attributes(Gather)
    to.give("GATHER", to.all_inputs(), axis=a.axis, batch_dims=a.batch_dims)


@writes("gather_nd", grids=Grids.SAME)
def gather_nd(to: NodeWriter) -> None:
    """GATHER_ND."""
    to.give("GATHER_ND", to.all_inputs())


@writes("scatter_nd")
def scatter_nd(to: NodeWriter) -> None:
    """SCATTER_ND."""
    indices, updates = to.input(0), to.input(1)
    # The operator requires a list of index rows, as i32.
    if len(indices.shape) == 1:
        indices = to.reshaped(indices, (1, *indices.shape))
        updates = to.reshaped(updates, (1, *updates.shape))
    if indices.dtype is not DType.I32:
        kinds = (TYPES.index(indices.dtype), TYPES.index(DType.I32))
        fields = {"in_data_type": kinds[0], "out_data_type": kinds[1]}
        indices = to.step("CAST", [indices], indices.shape, DType.I32, **fields)
    shape = to.integers(to.attributes(ScatterNd).shape, "shape")
    to.give("SCATTER_ND", [indices, updates, shape])


@writes("reverse_sequence")
def reverse_sequence(to: NodeWriter) -> None:
    """REVERSE_SEQUENCE."""
    a = to.attributes(ReverseSequence)
    to.give("REVERSE_SEQUENCE", to.all_inputs(), seq_dim=a.axis, batch_dim=a.batch_axis)

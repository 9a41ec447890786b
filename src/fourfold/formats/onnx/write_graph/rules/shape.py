"""Reshapes, transposes, and ops that move elements between pixels, channels and batch."""

from __future__ import annotations

import math

from fourfold.formats.onnx.write_graph.graph_writer import FlatImage, GraphWriter, writes
from fourfold.formats.onnx.write_graph.written_values import channels_first, identity
from fourfold.graph import Node
from fourfold.ops.base.axis_orders import inverse, keeps_order, move_reshape_before, permuted
from fourfold.ops.batch_to_space import BatchToSpace
from fourfold.ops.kernels.move import Block
from fourfold.ops.reshape import Reshape
from fourfold.ops.space_to_batch import SpaceToBatch
from fourfold.ops.transpose import Transpose

_FIRST = channels_first(4)


@writes("transpose")
def transpose(writer: GraphWriter, node: Node) -> None:
    """nothing, or Transpose if another axis order is read"""
    assert isinstance(node.attributes, Transpose)
    writer.rename(node.outputs[0], str(node.inputs[0]), node.attributes.permutation)


@writes("planes_to_pixels")
def planes_to_pixels(writer: GraphWriter, node: Node) -> None:
    """nothing, or Transpose if another axis order is read"""
    rank = writer.type(node.inputs[0]).rank
    writer.rename(node.outputs[0], str(node.inputs[0]), (0, *range(2, rank), 1))


@writes("pixels_to_planes")
def pixels_to_planes(writer: GraphWriter, node: Node) -> None:
    """nothing, or Transpose if another axis order is read"""
    order = channels_first(writer.type(node.inputs[0]).rank)
    writer.rename(node.outputs[0], str(node.inputs[0]), order)


@writes("reshape")
def reshape(writer: GraphWriter, node: Node) -> None:
    """Reshape"""
    assert isinstance(node.attributes, Reshape)
    source, result = str(node.inputs[0]), node.attributes.shape
    shape, order = writer.type(source).shape, identity(len(result))
    for available in writer.orders(source):
        if keeps_order(available, writer.at_least(shape)):
            reshaped = writer.reshape(
                writer.read(source, available), permuted(shape, available), result
            )
            writer.give(node.outputs[0], reshaped)
            return
    for available in writer.orders(source):
        reordered = move_reshape_before(shape, result, inverse(available))
        if reordered is not None:
            reshaped = writer.reshape(
                writer.read(source, available), permuted(shape, available), reordered[0]
            )
            writer.give(node.outputs[0], reshaped, inverse(reordered[1]))
            return
    if _only_products_read(writer, node) and writer.orders(source):
        available = writer.orders(source)[0]
        if available[0] == 0 and result == (shape[0], math.prod(shape[1:])):
            reshaped = writer.reshape(writer.read(source, available), shape, result)
            writer.call(reshaped, f"{node.outputs[0]}/channels_first")
            writer.flattened[node.outputs[0]] = FlatImage(reshaped, shape, available)
            return
    reshaped = writer.reshape(writer.read(source), shape, result)
    writer.give(node.outputs[0], reshaped, order)


def _only_products_read(writer: GraphWriter, node: Node) -> bool:
    """Return True if all readers have weights that can be reordered instead of the elements."""
    value, graph = node.outputs[0], writer.graph
    readers = graph.readers.get(value, ())
    return (
        not graph.is_output(value)
        and value not in writer.stored
        and bool(readers)
        and all(
            one.op == "fully_connected"
            and one.inputs[0] == value
            and one.inputs[1] in graph.constants
            for one in readers
        )
    )


@writes("depth_to_space", "space_to_depth")
def depth_to_space(writer: GraphWriter, node: Node) -> None:
    """DepthToSpace or SpaceToDepth"""
    assert isinstance(node.attributes, Block)
    op = "DepthToSpace" if node.op == "depth_to_space" else "SpaceToDepth"
    x = writer.read(node.inputs[0], _FIRST)
    writer.give(node.outputs[0], writer.add(op, x, blocksize=node.attributes.size), _FIRST)


@writes("space_to_batch")
def space_to_batch(writer: GraphWriter, node: Node) -> None:
    """Pad, Reshape, Transpose, Reshape"""
    attributes = node.attributes
    assert isinstance(attributes, SpaceToBatch)
    block, count = attributes.block, len(attributes.block)
    type_, result = writer.type(node.inputs[0]), writer.type(node.outputs[0])
    other_axes = type_.rank - 1 - count
    more = (0,) * other_axes
    around = (0, *attributes.before, *more, 0, *attributes.after, *more)
    x = writer.read(node.inputs[0])
    if any(around):
        x = writer.add("Pad", x, writer.integers(around), writer.number(0, type_.dtype))
    inner = result.shape[1 : 1 + count]
    parts = [size for pair in zip(inner, block, strict=True) for size in pair]
    shape = (type_.shape[0], *parts, *type_.shape[1 + count :])
    x = writer.add("Reshape", x, writer.integers(shape))
    blocks, pixels = range(2, 2 * count + 1, 2), range(1, 2 * count, 2)
    perm = (*blocks, 0, *pixels, *range(2 * count + 1, len(shape)))
    x = writer.add("Transpose", x, perm=perm)
    writer.give(node.outputs[0], writer.add("Reshape", x, writer.integers(result.shape)))


@writes("batch_to_space")
def batch_to_space(writer: GraphWriter, node: Node) -> None:
    """Reshape, Transpose, Reshape, Slice"""
    attributes = node.attributes
    assert isinstance(attributes, BatchToSpace)
    block, count = attributes.block, len(attributes.block)
    type_, result = writer.type(node.inputs[0]), writer.type(node.outputs[0])
    batch = type_.shape[0] // math.prod(block)
    shape = (*block, batch, *type_.shape[1:])
    x = writer.add("Reshape", writer.read(node.inputs[0]), writer.integers(shape))
    pairs = [axis for number in range(count) for axis in (count + 1 + number, number)]
    x = writer.add("Transpose", x, perm=(count, *pairs, *range(2 * count + 1, len(shape))))
    sizes = [size * part for size, part in zip(type_.shape[1:], block, strict=False)]
    full_shape = (batch, *sizes, *type_.shape[1 + count :])
    x = writer.add("Reshape", x, writer.integers(full_shape))
    if full_shape != result.shape:
        stops = [
            first + size for first, size in zip(attributes.before, result.shape[1:], strict=False)
        ]
        axes = writer.integers(range(1, 1 + count))
        x = writer.add("Slice", x, writer.integers(attributes.before), writer.integers(stops), axes)
    writer.give(node.outputs[0], x)

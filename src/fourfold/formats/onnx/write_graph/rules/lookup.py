"""Gather, scatter and sorting ops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fourfold.formats.onnx.write_graph.graph_writer import GraphWriter, writes
from fourfold.formats.onnx.write_graph.operator_list import element_of
from fourfold.formats.rule_table import Unconvertible
from fourfold.graph import Node
from fourfold.ops.base.axis_orders import Order
from fourfold.ops.gather import Gather
from fourfold.ops.gather_elements import GatherElements
from fourfold.ops.reverse_sequence import ReverseSequence
from fourfold.ops.scatter_elements import ScatterElements
from fourfold.ops.scatter_nd import ScatterNd
from fourfold.ops.scatter_update import ScatterUpdate
from fourfold.ops.top_indices import TopIndices
from fourfold.types import DType


def _longs(writer: GraphWriter, value: str | None) -> str:
    """Return indices as int64, which most ONNX operators require."""
    tensor = writer.read(value)
    if writer.type(value).dtype is DType.I64:
        return tensor
    if str(value) in writer.graph.constants:
        return writer.constant(writer.graph.constants[str(value)].astype(np.int64))
    return writer.add("Cast", tensor, to=element_of(DType.I64))


@writes("gather")
def gather(writer: GraphWriter, node: Node) -> None:
    """Gather, or GatherND with batch axes"""
    attributes = node.attributes
    assert isinstance(attributes, Gather)
    indices = node.inputs[1]
    if not attributes.batch_dims:
        order = writer.best_order(node.inputs[:1], writer.type(node.inputs[0]).rank)
        x, axis = writer.read(node.inputs[0], order), order.index(attributes.axis)
        gathered = writer.add("Gather", x, writer.read(indices), axis=axis)
        after = _gathered(order, attributes.axis, writer.type(indices).rank)
        writer.give(node.outputs[0], gathered, after)
        return
    x = writer.read(node.inputs[0])
    if attributes.axis == attributes.batch_dims:
        shape = (*writer.type(indices).shape, 1)
        rows = writer.add("Reshape", _longs(writer, indices), writer.integers(shape))
        gathered = writer.add("GatherND", x, rows, batch_dims=attributes.batch_dims)
    else:
        raise Unconvertible("axes between its batch and the gathered axis are not supported")
    writer.give(node.outputs[0], gathered)


def _gathered(order: Order, axis: int, added: int) -> Order:
    """Return the axis order after a gather replaces an axis with `added` axes."""

    def labels(axes: Sequence[int]) -> list[tuple[int, int]]:
        counts = ((one, added if one == axis else 1) for one in axes)
        return [(one, number) for one, count in counts for number in range(count)]

    own = labels(range(len(order)))
    return tuple(own.index(label) for label in labels(order))


@writes("gather_elements")
def gather_elements(writer: GraphWriter, node: Node) -> None:
    """GatherElements"""
    assert isinstance(node.attributes, GatherElements)
    x, indices = (writer.read(name) for name in node.inputs)
    gathered = writer.add("GatherElements", x, indices, axis=node.attributes.axis)
    writer.give(node.outputs[0], gathered)


@writes("gather_nd")
def gather_nd(writer: GraphWriter, node: Node) -> None:
    """GatherND"""
    x = writer.read(node.inputs[0])
    writer.give(node.outputs[0], writer.add("GatherND", x, _longs(writer, node.inputs[1])))


@writes("scatter_elements")
def scatter_elements(writer: GraphWriter, node: Node) -> None:
    """ScatterElements"""
    attributes = node.attributes
    assert isinstance(attributes, ScatterElements)
    tensors = [writer.read(name) for name in node.inputs]
    scattered = writer.add(
        "ScatterElements", *tensors, axis=attributes.axis, reduction=attributes.reduction
    )
    writer.give(node.outputs[0], scattered)


@writes("scatter_nd")
def scatter_nd(writer: GraphWriter, node: Node) -> None:
    """ScatterND into zeros"""
    attributes = node.attributes
    assert isinstance(attributes, ScatterNd)
    indices, updates = node.inputs
    dtype = writer.type(updates).dtype
    shape = writer.integers(attributes.shape)
    zeros = writer.add("Expand", writer.number(0, dtype), shape)
    rows = _longs(writer, indices)
    scattered = writer.add("ScatterND", zeros, rows, writer.read(updates), reduction="add")
    writer.give(node.outputs[0], scattered)


@writes("scatter_update")
def scatter_update(writer: GraphWriter, node: Node) -> None:
    """ScatterND"""
    assert isinstance(node.attributes, ScatterUpdate)
    x, indices, updates = node.inputs
    scattered = writer.add(
        "ScatterND",
        writer.read(x),
        _longs(writer, indices),
        writer.read(updates),
        reduction=node.attributes.reduction,
    )
    writer.give(node.outputs[0], scattered)


@writes("reverse_sequence")
def reverse_sequence(writer: GraphWriter, node: Node) -> None:
    """ReverseSequence"""
    attributes = node.attributes
    assert isinstance(attributes, ReverseSequence)
    first = (attributes.batch_axis, attributes.axis)
    rank = writer.type(node.inputs[0]).rank
    order = (*first, *(axis for axis in range(rank) if axis not in first))
    x, lengths = writer.read(node.inputs[0], order), _longs(writer, node.inputs[1])
    reversed_ = writer.add("ReverseSequence", x, lengths, batch_axis=0, time_axis=1)
    writer.give(node.outputs[0], reversed_, order)


@writes("top_indices")
def top_indices(writer: GraphWriter, node: Node) -> None:
    """TopK"""
    assert isinstance(node.attributes, TopIndices)
    x, count = writer.read(node.inputs[0]), writer.integers([node.attributes.count])
    _, indices = writer.add_several("TopK", (x, count), 2, {"axis": -1, "largest": 1, "sorted": 1})
    writer.give(node.outputs[0], writer.add("Cast", indices, to=element_of(DType.I32)))

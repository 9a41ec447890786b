"""Ops along axes in any order: reductions, softmax, concat, slices, pads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fourfold.formats.onnx.write_graph.graph_writer import GraphWriter, writes
from fourfold.formats.onnx.write_graph.operator_list import element_of
from fourfold.graph import Node
from fourfold.ops.arg_max import ArgMax
from fourfold.ops.base.axis_orders import Order, permuted
from fourfold.ops.base.rules import Reduce
from fourfold.ops.concat import Concat
from fourfold.ops.cumprod import Cumprod
from fourfold.ops.cumsum import Cumsum
from fourfold.ops.mirror_pad import MirrorPad
from fourfold.ops.pad import Pad
from fourfold.ops.slice import Slice
from fourfold.ops.softmax import Softmax
from fourfold.ops.tile import Tile
from fourfold.types import DType

_REDUCTIONS = {
    "mean": "ReduceMean",
    "reduce_max": "ReduceMax",
    "reduce_min": "ReduceMin",
    "reduce_prod": "ReduceProd",
    "sum": "ReduceSum",
}
_OF_BOOLS = {"reduce_all": "ReduceMin", "reduce_any": "ReduceMax"}
_BEFORE_ALL = -(2**63)  # the end of a reversed slice that includes the first element
_MIN_SUM_OF_SQUARES = 1e-6


def _input(writer: GraphWriter, node: Node) -> tuple[str, Order]:
    """Return the first input in an axis order in which it already exists."""
    order = writer.best_order(node.inputs[:1], writer.type(node.inputs[0]).rank)
    return writer.read(node.inputs[0], order), order


def _positions(axes: Sequence[int], order: Order) -> list[int]:
    return sorted(order.index(axis) for axis in axes)


def _without(order: Order, axes: Sequence[int], kept: bool) -> Order:
    """Return the axis order after axes are removed."""
    if kept:
        return order
    left = [axis for axis in range(len(order)) if axis not in axes]
    return tuple(left.index(axis) for axis in order if axis not in axes)


@writes(*_REDUCTIONS)
def reduction(writer: GraphWriter, node: Node) -> None:
    """ReduceMean, ReduceSum and the like"""
    x, order = _input(writer, node)
    _reduce(writer, node, _REDUCTIONS[node.op], x, order)


@writes(*_OF_BOOLS)
def reduction_of_bools(writer: GraphWriter, node: Node) -> None:
    """ReduceMin or ReduceMax of booleans cast to integers"""
    x, order = _input(writer, node)
    number = writer.add("Cast", x, to=element_of(DType.I32))
    reduced, order = _reduced(writer, node, _OF_BOOLS[node.op], number, order)
    writer.give(node.outputs[0], writer.add("Cast", reduced, to=element_of(DType.BOOL)), order)


@writes("variance")
def variance(writer: GraphWriter, node: Node) -> None:
    """ReduceMean of squared differences"""
    order = writer.best_order(node.inputs[:1], writer.type(node.inputs[0]).rank)
    x, middle = (writer.read_broadcast(name, order) for name in node.inputs)
    difference = writer.add("Sub", x, middle)
    _reduce(writer, node, "ReduceMean", writer.add("Mul", difference, difference), order)


def _reduce(writer: GraphWriter, node: Node, op: str, x: str, order: Order) -> None:
    writer.give(node.outputs[0], *_reduced(writer, node, op, x, order))


def _reduced(writer: GraphWriter, node: Node, op: str, x: str, order: Order) -> tuple[str, Order]:
    assert isinstance(node.attributes, Reduce)
    axes, keep = node.attributes.axes, node.attributes.keep_dims
    positions = writer.integers(_positions(axes, order))
    reduced = writer.add(op, x, positions, keepdims=int(keep), noop_with_empty_axes=1)
    return reduced, _without(order, axes, keep)


@writes("arg_max")
def arg_max(writer: GraphWriter, node: Node) -> None:
    """ArgMax"""
    attributes = node.attributes
    assert isinstance(attributes, ArgMax)
    x, order = _input(writer, node)
    indices = writer.add(
        "ArgMax",
        x,
        axis=order.index(attributes.axis),
        keepdims=int(attributes.keep_dims),
        select_last_index=int(attributes.last),
    )
    if attributes.dtype is not DType.I64:
        indices = writer.add("Cast", indices, to=element_of(attributes.dtype))
    writer.give(node.outputs[0], indices, _without(order, (attributes.axis,), attributes.keep_dims))


@writes("softmax", "log_softmax")
def softmax(writer: GraphWriter, node: Node) -> None:
    """Softmax or LogSoftmax"""
    x, order = _input(writer, node)
    if isinstance(node.attributes, Softmax) and node.attributes.beta != 1.0:
        x = writer.add("Mul", x, writer.number(node.attributes.beta))
    op = "Softmax" if node.op == "softmax" else "LogSoftmax"
    result = writer.add(op, x, axis=order.index(len(order) - 1))
    writer.give(node.outputs[0], result, order)


@writes("l2_normalize")
def l2_normalize(writer: GraphWriter, node: Node) -> None:
    """Div by the Sqrt of ReduceSumSquare"""
    x, order = _input(writer, node)
    last = writer.integers([order.index(len(order) - 1)])
    squares = writer.add("ReduceSumSquare", x, last, keepdims=1)
    length = writer.add("Sqrt", writer.add("Max", squares, writer.number(_MIN_SUM_OF_SQUARES)))
    writer.give(node.outputs[0], writer.add("Div", x, length), order)


@writes("concat")
def concat(writer: GraphWriter, node: Node) -> None:
    """Concat"""
    assert isinstance(node.attributes, Concat)
    order = writer.best_order(node.inputs, writer.type(node.outputs[0]).rank)
    parts = [writer.read(name, order) for name in node.inputs]
    joined = writer.add("Concat", *parts, axis=order.index(node.attributes.axis))
    writer.give(node.outputs[0], joined, order)


@writes("cumsum")
def cumsum(writer: GraphWriter, node: Node) -> None:
    """CumSum"""
    attributes = node.attributes
    assert isinstance(attributes, Cumsum)
    x, order = _input(writer, node)
    axis = writer.number(order.index(attributes.axis), DType.I64)
    flags = {"exclusive": int(attributes.exclusive), "reverse": int(attributes.reverse)}
    writer.give(node.outputs[0], writer.add("CumSum", x, axis, **flags), order)


@writes("cumprod")
def cumprod(writer: GraphWriter, node: Node) -> None:
    """Slice, Pad and Mul with doubling steps (a parallel prefix product)"""
    attributes = node.attributes
    assert isinstance(attributes, Cumprod)
    x, order = _input(writer, node)
    type_, axis = writer.type(node.inputs[0]), order.index(attributes.axis)
    size, one = type_.shape[attributes.axis], writer.number(1, type_.dtype)
    axes = writer.integers([axis])

    def later(value: str, step: int) -> str:
        """Return the value shifted by `step` elements, filled with ones."""
        pads = [step if number == axis else 0 for number in range(2 * type_.rank)]
        left = writer.add(
            "Slice", value, writer.integers([0]), writer.integers([size - step]), axes
        )
        return writer.add("Pad", left, writer.integers(pads), one)

    def turned(value: str) -> str:
        sides = (writer.integers([side]) for side in (-1, _BEFORE_ALL))
        return writer.add("Slice", value, *sides, axes, writer.integers([-1]))

    x = turned(x) if attributes.reverse else x
    x = later(x, 1) if attributes.exclusive else x
    for step in (2**power for power in range(max(size - 1, 0).bit_length())):
        x = writer.add("Mul", x, later(x, step))
    writer.give(node.outputs[0], turned(x) if attributes.reverse else x, order)


@writes("slice")
def slice_(writer: GraphWriter, node: Node) -> None:
    """Slice"""
    attributes = node.attributes
    assert isinstance(attributes, Slice)
    x, order = _input(writer, node)
    shape = writer.type(node.inputs[0]).shape
    cut = [
        axis
        for axis in order
        if attributes.size[axis] != shape[axis] or _is_reversed(attributes, axis)
    ]
    if not cut:
        writer.rename(node.outputs[0], str(node.inputs[0]), tuple(range(len(order))))
        return
    begins = [attributes.begin[axis] for axis in cut]
    steps = [attributes.strides[axis] for axis in cut]
    stops = [
        attributes.begin[axis] + attributes.size[axis] * attributes.strides[axis] for axis in cut
    ]
    stops = [_BEFORE_ALL if end < 0 else end for end in stops]
    positions = [order.index(axis) for axis in cut]
    numbers = (writer.integers(side) for side in (begins, stops, positions, steps))
    writer.give(node.outputs[0], writer.add("Slice", x, *numbers), order)


def _is_reversed(attributes: Slice, axis: int) -> bool:
    """Return True if an axis is read backwards."""
    return attributes.strides[axis] < 0 and attributes.size[axis] > 1


@writes("pad")
def pad(writer: GraphWriter, node: Node) -> None:
    """Pad"""
    attributes = node.attributes
    assert isinstance(attributes, Pad)
    x, order = _input(writer, node)
    if not order:  # ONNX Runtime cannot pad scalars, and there is nothing to pad
        writer.rename(node.outputs[0], str(node.inputs[0]), order)
        return
    around = (*permuted(attributes.before, order), *permuted(attributes.after, order))
    value = writer.number(attributes.value, writer.type(node.inputs[0]).dtype)
    writer.give(node.outputs[0], writer.add("Pad", x, writer.integers(around), value), order)


@writes("mirror_pad")
def mirror_pad(writer: GraphWriter, node: Node) -> None:
    """Pad with reflection, or Gather if the edge is repeated"""
    attributes = node.attributes
    assert isinstance(attributes, MirrorPad)
    x, order = _input(writer, node)
    if attributes.reflect and order:
        around = (*permuted(attributes.before, order), *permuted(attributes.after, order))
        padded = writer.add("Pad", x, writer.integers(around), mode="reflect")
        writer.give(node.outputs[0], padded, order)
        return
    for axis, size in enumerate(writer.type(node.inputs[0]).shape):
        around = (attributes.before[axis], attributes.after[axis])
        if any(around):
            indices = np.pad(np.arange(size), around, mode="symmetric")
            x = writer.add("Gather", x, writer.constant(indices), axis=order.index(axis))
    writer.give(node.outputs[0], x, order)


@writes("tile")
def tile(writer: GraphWriter, node: Node) -> None:
    """Tile"""
    assert isinstance(node.attributes, Tile)
    x, order = _input(writer, node)
    repeats = writer.integers(permuted(node.attributes.multiples, order))
    writer.give(node.outputs[0], writer.add("Tile", x, repeats), order)

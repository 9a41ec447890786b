"""Ops along axes, which may lie in any order: reductions, softmax, concat, slices, pads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fourfold.formats.onnx.write_graph.graph_writer import GraphWriter
from fourfold.formats.onnx.write_graph.rule import writes
from fourfold.formats.onnx.write_graph.tensor import element_of
from fourfold.graph import Node
from fourfold.op.axis_orders import Order, permuted
from fourfold.op.rules import Reduce
from fourfold.ops.arg_max import ArgMax
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
_BEFORE_ALL = -(2**63)  # an end of a slice that goes back to the first element
_LEAST_SQUARES = 1e-6


def _input(writer: GraphWriter, node: Node) -> tuple[str, Order]:
    """The first input in an order in which it is there."""
    order = writer.best_order(node.inputs[:1], writer.type(node.inputs[0]).rank)
    return writer.read(node.inputs[0], order), order


def _places(axes: Sequence[int], order: Order) -> list[int]:
    return sorted(order.index(axis) for axis in axes)


def _without(order: Order, axes: Sequence[int], kept: bool) -> Order:
    """The order of what is left where these axes go."""
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
    """ReduceMin or ReduceMax of bools as integers"""
    x, order = _input(writer, node)
    number = writer.add("Cast", x, to=element_of(DType.I32))
    made, order = _reduced(writer, node, _OF_BOOLS[node.op], number, order)
    writer.give(node.outputs[0], writer.add("Cast", made, to=element_of(DType.BOOL)), order)


@writes("variance")
def variance(writer: GraphWriter, node: Node) -> None:
    """ReduceMean of the squares of Sub"""
    order = writer.best_order(node.inputs[:1], writer.type(node.inputs[0]).rank)
    x, middle = (writer.read_broadcast(name, order) for name in node.inputs)
    difference = writer.add("Sub", x, middle)
    _reduce(writer, node, "ReduceMean", writer.add("Mul", difference, difference), order)


def _reduce(writer: GraphWriter, node: Node, op: str, x: str, order: Order) -> None:
    writer.give(node.outputs[0], *_reduced(writer, node, op, x, order))


def _reduced(writer: GraphWriter, node: Node, op: str, x: str, order: Order) -> tuple[str, Order]:
    assert isinstance(node.attributes, Reduce)
    axes, keep = node.attributes.axes, node.attributes.keep_dims
    places = writer.integers(_places(axes, order))
    made = writer.add(op, x, places, keepdims=int(keep), noop_with_empty_axes=1)
    return made, _without(order, axes, keep)


@writes("arg_max")
def arg_max(writer: GraphWriter, node: Node) -> None:
    """ArgMax"""
    attributes = node.attributes
    assert isinstance(attributes, ArgMax)
    x, order = _input(writer, node)
    made = writer.add(
        "ArgMax",
        x,
        axis=order.index(attributes.axis),
        keepdims=int(attributes.keep_dims),
        select_last_index=int(attributes.last),
    )
    if attributes.dtype is not DType.I64:
        made = writer.add("Cast", made, to=element_of(attributes.dtype))
    writer.give(node.outputs[0], made, _without(order, (attributes.axis,), attributes.keep_dims))


@writes("softmax", "log_softmax")
def softmax(writer: GraphWriter, node: Node) -> None:
    """Softmax or LogSoftmax"""
    x, order = _input(writer, node)
    if isinstance(node.attributes, Softmax) and node.attributes.beta != 1.0:
        x = writer.add("Mul", x, writer.number(node.attributes.beta))
    op = "Softmax" if node.op == "softmax" else "LogSoftmax"
    made = writer.add(op, x, axis=order.index(len(order) - 1))
    writer.give(node.outputs[0], made, order)


@writes("l2_normalize")
def l2_normalize(writer: GraphWriter, node: Node) -> None:
    """Div by the Sqrt of ReduceSumSquare"""
    x, order = _input(writer, node)
    last = writer.integers([order.index(len(order) - 1)])
    squares = writer.add("ReduceSumSquare", x, last, keepdims=1)
    length = writer.add("Sqrt", writer.add("Max", squares, writer.number(_LEAST_SQUARES)))
    writer.give(node.outputs[0], writer.add("Div", x, length), order)


@writes("concat")
def concat(writer: GraphWriter, node: Node) -> None:
    """Concat"""
    assert isinstance(node.attributes, Concat)
    order = writer.best_order(node.inputs, writer.type(node.outputs[0]).rank)
    parts = [writer.read(name, order) for name in node.inputs]
    made = writer.add("Concat", *parts, axis=order.index(node.attributes.axis))
    writer.give(node.outputs[0], made, order)


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
    """Slice, Pad and Mul by turns: each element times the one a step before, then twice as far"""
    attributes = node.attributes
    assert isinstance(attributes, Cumprod)
    x, order = _input(writer, node)
    type_, axis = writer.type(node.inputs[0]), order.index(attributes.axis)
    size, one = type_.shape[attributes.axis], writer.number(1, type_.dtype)
    place = writer.integers([axis])

    def later(value: str, step: int) -> str:
        """The value some elements further on; ones come before it."""
        ends = (writer.integers([0]), writer.integers([size - step]))
        pads = [step if number == axis else 0 for number in range(2 * type_.rank)]
        left = writer.add("Slice", value, *ends, place)
        return writer.add("Pad", left, writer.integers(pads), one)

    def turned(value: str) -> str:
        sides = (writer.integers([side]) for side in (-1, _BEFORE_ALL))
        return writer.add("Slice", value, *sides, place, writer.integers([-1]))

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
        axis for axis in order if attributes.size[axis] != shape[axis] or _turns(attributes, axis)
    ]
    if not cut:
        writer.rename(node.outputs[0], str(node.inputs[0]), tuple(range(len(order))))
        return
    begins = [attributes.begin[axis] for axis in cut]
    steps = [attributes.strides[axis] for axis in cut]
    ends = [
        attributes.begin[axis] + attributes.size[axis] * attributes.strides[axis] for axis in cut
    ]
    ends = [_BEFORE_ALL if end < 0 else end for end in ends]
    places = [order.index(axis) for axis in cut]
    numbers = (writer.integers(side) for side in (begins, ends, places, steps))
    writer.give(node.outputs[0], writer.add("Slice", x, *numbers), order)


def _turns(attributes: Slice, axis: int) -> bool:
    """Whether an axis is read backwards, from its end."""
    return attributes.strides[axis] < 0 and attributes.size[axis] > 1


@writes("pad")
def pad(writer: GraphWriter, node: Node) -> None:
    """Pad"""
    attributes = node.attributes
    assert isinstance(attributes, Pad)
    x, order = _input(writer, node)
    if not order:  # ONNX Runtime pads no scalars, and there is nothing to pad
        writer.rename(node.outputs[0], str(node.inputs[0]), order)
        return
    around = (*permuted(attributes.before, order), *permuted(attributes.after, order))
    value = writer.number(attributes.value, writer.type(node.inputs[0]).dtype)
    writer.give(node.outputs[0], writer.add("Pad", x, writer.integers(around), value), order)


@writes("mirror_pad")
def mirror_pad(writer: GraphWriter, node: Node) -> None:
    """Pad that reflects, or Gather where the edge comes twice"""
    attributes = node.attributes
    assert isinstance(attributes, MirrorPad)
    x, order = _input(writer, node)
    if attributes.reflect and order:
        around = (*permuted(attributes.before, order), *permuted(attributes.after, order))
        made = writer.add("Pad", x, writer.integers(around), mode="reflect")
        writer.give(node.outputs[0], made, order)
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

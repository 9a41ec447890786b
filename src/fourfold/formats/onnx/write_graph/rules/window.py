"""Convolutions and pools, which are channels-first in ONNX."""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.formats.onnx.write_graph.graph_writer import GraphWriter, writes
from fourfold.formats.onnx.write_graph.written_values import channels_first
from fourfold.formats.rule_table import Unconvertible
from fourfold.graph import Node
from fourfold.ops.average_pool import AveragePool
from fourfold.ops.base.axis_orders import Order
from fourfold.ops.base.window import Padding, Pool2d, PoolAxes
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.conv3d import Conv3d
from fourfold.ops.depthwise_conv2d import DepthwiseConv2d
from fourfold.ops.lp_pool import LpPool
from fourfold.ops.transpose_conv2d import TransposeConv2d
from fourfold.types import DType, Shape

_FIRST = channels_first(4)
_CHANNELS_IN_FRONT = (3, 0, 1, 2)
_POOLED = frozenset({DType.F16, DType.F32, DType.F64, DType.I8, DType.U8})


def _pads(padding: Padding) -> Order:
    return padding.top, padding.left, padding.bottom, padding.right


def _bias(writer: GraphWriter, node: Node) -> str | None:
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    return None if bias is None else writer.read(bias)


def _convolution(writer: GraphWriter, node: Node, order: Order, groups: int) -> None:
    attributes = node.attributes
    assert isinstance(attributes, Conv2d | DepthwiseConv2d)
    result = writer.add(
        "Conv",
        writer.read(node.inputs[0], _FIRST),
        writer.read(node.inputs[1], order),
        _bias(writer, node),
        kernel_shape=writer.type(node.inputs[1]).shape[1:3],
        strides=attributes.stride,
        dilations=attributes.dilation,
        pads=_pads(attributes.padding),
        group=groups,
    )
    writer.give(node.outputs[0], result, _FIRST)


@writes("conv2d")
def conv2d(writer: GraphWriter, node: Node) -> None:
    """Conv"""
    assert isinstance(node.attributes, Conv2d)
    _convolution(writer, node, _FIRST, node.attributes.groups)


@writes("depthwise_conv2d")
def depthwise_conv2d(writer: GraphWriter, node: Node) -> None:
    """Conv with a group per channel"""
    _convolution(writer, node, _CHANNELS_IN_FRONT, writer.type(node.inputs[0]).channels)


@writes("conv3d")
def conv3d(writer: GraphWriter, node: Node) -> None:
    """Conv over three axes"""
    attributes, first = node.attributes, channels_first(5)
    assert isinstance(attributes, Conv3d)
    before, after = zip(*attributes.padding, strict=True)
    result = writer.add(
        "Conv",
        writer.read(node.inputs[0], first),
        writer.read(node.inputs[1], first),
        _bias(writer, node),
        strides=attributes.stride,
        dilations=attributes.dilation,
        pads=(*before, *after),
    )
    writer.give(node.outputs[0], result, first)


@writes("transpose_conv2d")
def transpose_conv2d(writer: GraphWriter, node: Node) -> None:
    """ConvTranspose"""
    attributes = node.attributes
    assert isinstance(attributes, TransposeConv2d)
    image, filter_ = writer.type(node.inputs[0]).shape[1:3], writer.type(node.inputs[1]).shape[1:3]
    padding = (attributes.padding.height, attributes.padding.width)
    plain = [(image[n] - 1) * attributes.stride[n] + filter_[n] - sum(padding[n]) for n in (0, 1)]
    result = writer.add(
        "ConvTranspose",
        writer.read(node.inputs[0], _FIRST),
        writer.read(node.inputs[1], _CHANNELS_IN_FRONT),
        _bias(writer, node),
        strides=attributes.stride,
        pads=_pads(attributes.padding),
        output_padding=[attributes.size[n] - plain[n] for n in (0, 1)],
    )
    writer.give(node.outputs[0], result, _FIRST)


@writes("max_pool2d", "average_pool2d")
def pool2d(writer: GraphWriter, node: Node) -> None:
    """MaxPool or AveragePool"""
    attributes = node.attributes
    assert isinstance(attributes, Pool2d)
    pooled = writer.add(
        "MaxPool" if node.op == "max_pool2d" else "AveragePool",
        writer.read(node.inputs[0], _FIRST),
        kernel_shape=attributes.filter,
        strides=attributes.stride,
        pads=_pads(attributes.padding),
    )
    writer.give(node.outputs[0], pooled, _FIRST)


@writes("max_pool")
def max_pool(writer: GraphWriter, node: Node) -> None:
    """MaxPool over any number of axes"""
    _pool(writer, node, "MaxPool")


@writes("average_pool")
def average_pool(writer: GraphWriter, node: Node) -> None:
    """AveragePool over any number of axes"""
    assert isinstance(node.attributes, AveragePool)
    _pool(writer, node, "AveragePool", count_include_pad=int(node.attributes.counts_padding))


@writes("lp_pool")
def lp_pool(writer: GraphWriter, node: Node) -> None:
    """LpPool"""
    assert isinstance(node.attributes, LpPool)
    if not float(node.attributes.p).is_integer():
        raise Unconvertible(f"its norm has order {node.attributes.p}; ONNX needs an integer")
    _pool(writer, node, "LpPool", p=int(node.attributes.p))


def _pool(writer: GraphWriter, node: Node, op: str, **more: int) -> None:
    attributes, type_ = node.attributes, writer.type(node.inputs[0])
    assert isinstance(attributes, PoolAxes)
    first = channels_first(type_.rank)
    if type_.dtype not in _POOLED:
        raise Unconvertible(f"ONNX cannot pool {type_.dtype.value}")
    image = type_.shape[1:-1]
    floor = _sizes(attributes, image, up=False) == attributes.size
    if not floor and _sizes(attributes, image, up=True) != attributes.size:
        raise Unconvertible("its number of windows cannot be expressed with ceil_mode")
    pooled = writer.add(
        op,
        writer.read(node.inputs[0], first),
        kernel_shape=attributes.filter,
        strides=attributes.stride,
        dilations=attributes.dilation,
        pads=(*attributes.before, *attributes.after),
        ceil_mode=int(not floor),
        **more,
    )
    writer.give(node.outputs[0], pooled, first)


def _sizes(attributes: PoolAxes, image: Sequence[int], up: bool) -> Shape:
    """Return the number of windows; with `up`, the last one may extend past the end."""
    counts = []
    for axis, size in enumerate(image):
        stride, before = attributes.stride[axis], attributes.before[axis]
        reach = (attributes.filter[axis] - 1) * attributes.dilation[axis] + 1
        space = size + before + attributes.after[axis] - reach
        count = (-(-space // stride) if up else space // stride) + 1
        counts.append(count - (up and (count - 1) * stride >= size + before))
    return tuple(counts)

"""Convolutions and pools in two and three dimensions, and resizing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fourfold.formats.tflite.schema import SAME, VALID
from fourfold.formats.tflite.write_graph.draft import Tensor
from fourfold.formats.tflite.write_graph.node_writer import (
    BYTES,
    Grids,
    NeedsRealNumbers,
    NodeWriter,
    writes,
)
from fourfold.ops.base.rules import Resize
from fourfold.ops.base.window import Pair, Pool2d, pool_window, same, windows
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.conv3d import Conv3d
from fourfold.ops.depthwise_conv2d import DepthwiseConv2d
from fourfold.ops.transpose_conv2d import TransposeConv2d
from fourfold.types import Shape

Pairs = Sequence[Pair]
_MIN_FLOAT = float(np.finfo(np.float32).min)


def padded(to: NodeWriter, x: Tensor, around: Pairs, value: float = 0.0) -> Tensor:
    """Pad an image or volume explicitly, for padding that is neither SAME nor VALID."""
    pads = [(0, 0), *around, (0, 0)]
    shape = tuple(size + sum(pair) for size, pair in zip(x.shape, pads, strict=True))
    amounts = to.integers(pads, "paddings")
    if value == 0.0:
        return to.step("PAD", [x, amounts], shape)
    return to.step("PADV2", [x, amounts, to.number(value, x, "outside")], shape)


def kind_of(
    sizes: Shape, filter: Shape, stride: Shape, dilation: Shape, around: Pairs
) -> int | None:
    """Return SAME or VALID if one of them means this padding, else None."""
    if not any(map(any, around)):
        return VALID
    same_padding = [same(*numbers) for numbers in zip(sizes, filter, stride, dilation, strict=True)]
    return SAME if same_padding == list(around) else None


@writes("conv2d", grids=Grids.ANY, weights=1, bias=2, hybrid=BYTES, fuses=True)
def conv2d(to: NodeWriter) -> None:
    """CONV_2D, after a PAD if the padding is neither SAME nor VALID."""
    attributes = to.attributes(Conv2d)
    _convolve(to, "CONV_2D", attributes)


@writes("depthwise_conv2d", grids=Grids.ANY, weights=1, bias=2, hybrid=BYTES, fuses=True)
def depthwise_conv2d(to: NodeWriter) -> None:
    """DEPTHWISE_CONV_2D, after a PAD if the padding is neither SAME nor VALID."""
    attributes = to.attributes(DepthwiseConv2d)
    _convolve(to, "DEPTHWISE_CONV_2D", attributes, multiplier=attributes.multiplier)


def _convolve(to: NodeWriter, op: str, attributes: Conv2d | DepthwiseConv2d, **fields: Any) -> None:
    x, weights = to.input(0), to.input(1)
    around = (attributes.padding.height, attributes.padding.width)
    stride, dilation = attributes.stride, attributes.dilation
    kind = kind_of(x.shape[1:3], weights.shape[1:3], stride, dilation, around)
    if kind is None:
        x, kind = padded(to, x, around), VALID
    bias = to.optional(2) or to.zeros(to.result_type().channels)
    to.give(
        op,
        [x, weights, bias],
        padding=kind,
        stride_h=stride[0],
        stride_w=stride[1],
        dilation_h=dilation[0],
        dilation_w=dilation[1],
        activation=to.activation,
        **fields,
    )


@writes("transpose_conv2d", grids=Grids.ANY, weights=1, bias=2)
def transpose_conv2d(to: NodeWriter) -> None:
    """TRANSPOSE_CONV; for other padding, the full result and a SLICE."""
    attributes, x, weights = to.attributes(TransposeConv2d), to.input(0), to.input(1)
    filter, stride, padding = weights.shape[1:3], attributes.stride, attributes.padding
    full_size = tuple(
        (size - 1) * step + taps
        for size, step, taps in zip(x.shape[1:3], stride, filter, strict=True)
    )
    around = (padding.height, padding.width)
    kind = kind_of(attributes.size, filter, stride, (1, 1), around)
    if kind == SAME or (kind == VALID and full_size == attributes.size):
        inputs = [to.shape(to.result_type().shape), weights, x]
        inputs += [to.input(2)] if to.has(2) else []
        fields = {"padding": kind, "stride_h": stride[0], "stride_w": stride[1]}
        to.give("TRANSPOSE_CONV", inputs, **fields)
        return
    _transpose_whole(to, attributes, full_size)


def _transpose_whole(to: NodeWriter, attributes: TransposeConv2d, full_size: Shape) -> None:
    """Compute the full result and crop it."""
    if to.products is not None:
        raise NeedsRealNumbers
    x, weights, stride, padding = to.input(0), to.input(1), attributes.stride, attributes.padding
    shape = (x.shape[0], *full_size, weights.shape[0])
    full = to.temporary("TRANSPOSE_CONV", x.type.with_shape(*shape))
    to.draft.operator(
        "TRANSPOSE_CONV",
        [to.shape(shape), weights, x],
        [full],
        padding=VALID,
        stride_h=stride[0],
        stride_w=stride[1],
    )
    # A stride can leave rows at the end that no filter tap reaches.
    last = (padding.top + attributes.size[0], padding.left + attributes.size[1])
    beyond = [(0, max(0, end - size)) for end, size in zip(last, full_size, strict=True)]
    if any(map(any, beyond)):
        full = padded(to, full, beyond)
    begin = to.integers((0, padding.top, padding.left, 0), "begin")
    size = to.integers(to.result_type().shape, "size")
    if not to.has(2):
        to.give("SLICE", [full, begin, size])
        return
    cropped = to.step("SLICE", [full, begin, size], to.result_type().shape)
    to.give("ADD", [cropped, to.input(2)])


@writes("conv3d", fuses=True)
def conv3d(to: NodeWriter) -> None:
    """CONV_3D, with the output channels of its weights last."""
    attributes, x, weights = to.attributes(Conv3d), to.input(0), to.input(1)
    stride, dilation = attributes.stride, attributes.dilation
    kind = kind_of(x.shape[1:4], weights.shape[1:4], stride, dilation, attributes.padding)
    if kind is None:
        x, kind = padded(to, x, attributes.padding), VALID
    order, constant = (1, 2, 3, 4, 0), to.array(1)
    turned = (
        to.transposed(weights, order)
        if constant is None
        else to.constant(np.ascontiguousarray(constant.transpose(order)), "weights")
    )
    bias = to.optional(2)
    to.give(
        "CONV_3D",
        [x, turned, bias] if bias else [x, turned],
        padding=kind,
        stride_d=stride[0],
        stride_h=stride[1],
        stride_w=stride[2],
        dilation_d=dilation[0],
        dilation_h=dilation[1],
        dilation_w=dilation[2],
        activation=to.activation,
    )


def _pool_fields(attributes: Pool2d, kind: int, activation: int) -> dict[str, Any]:
    return {
        "padding": kind,
        "stride_h": attributes.stride[0],
        "stride_w": attributes.stride[1],
        "filter_h": attributes.filter[0],
        "filter_w": attributes.filter[1],
        "activation": activation,
    }


def _pool_kind(attributes: Pool2d, x: Tensor) -> int | None:
    around = (attributes.padding.height, attributes.padding.width)
    return kind_of(x.shape[1:3], attributes.filter, attributes.stride, (1, 1), around)


@writes("max_pool2d", grids=Grids.SAME, fuses=True)
def max_pool2d(to: NodeWriter) -> None:
    """MAX_POOL_2D, after a PADV2 with the lowest number if needed."""
    attributes, x = to.attributes(Pool2d), to.input(0)
    kind = _pool_kind(attributes, x)
    if kind is None:
        around = (attributes.padding.height, attributes.padding.width)
        x, kind = padded(to, x, around, _MIN_FLOAT), VALID
    to.give("MAX_POOL_2D", [x], **_pool_fields(attributes, kind, to.activation))


@writes("average_pool2d", grids=Grids.SAME, fuses=True)
def average_pool2d(to: NodeWriter) -> None:
    """AVERAGE_POOL_2D; explicit padding counts as zeros, which a factor per window corrects."""
    attributes, x = to.attributes(Pool2d), to.input(0)
    kind = _pool_kind(attributes, x)
    if kind is not None:
        to.give("AVERAGE_POOL_2D", [x], **_pool_fields(attributes, kind, to.activation))
        return
    if x.quantization is not None:
        raise NeedsRealNumbers
    around = (attributes.padding.height, attributes.padding.width)
    fields = _pool_fields(attributes, VALID, 0)
    shape = to.result_type().shape
    mean = to.step("AVERAGE_POOL_2D", [padded(to, x, around)], shape, **fields)
    ones = np.ones((1, *x.shape[1:3], 1), np.float32)
    counts = windows(ones, pool_window(attributes)).sum(axis=(4, 5))
    factor = to.constant(np.float32(np.prod(attributes.filter)) / counts, "factor")
    to.give("MUL", [mean, factor], activation=to.activation)


_OPERATORS = {
    "resize_bilinear": "RESIZE_BILINEAR",
    "resize_nearest": "RESIZE_NEAREST_NEIGHBOR",
}


@writes(*_OPERATORS, grids=Grids.SAME)
def resize_image(to: NodeWriter) -> None:
    """RESIZE_BILINEAR or RESIZE_NEAREST_NEIGHBOR."""
    attributes = to.attributes(Resize)
    size = to.integers(attributes.size, "size")
    to.give(
        _OPERATORS[to.node.op],
        [to.input(0), size],
        align_corners=attributes.align_corners,
        half_pixel_centers=attributes.half_pixel_centers,
    )

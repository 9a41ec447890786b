"""Convolutions, pooling and resizing."""

from __future__ import annotations

from fourfold.formats.axes import check_window
from fourfold.formats.tflite.operation import Operation, converts
from fourfold.formats.tflite.options import (
    BlockOptions,
    Conv2DOptions,
    DepthwiseConv2DOptions,
    Pool2DOptions,
    ResizeBilinearOptions,
    ResizeNearestNeighborOptions,
    TransposeConvOptions,
)
from fourfold.formats.tflite.schema import SAME, VALID
from fourfold.ops.base.rules import Resize
from fourfold.ops.base.window import Padding, Pool2d, same
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.depthwise_conv2d import DepthwiseConv2d
from fourfold.ops.kernels.move import Block
from fourfold.ops.transpose_conv2d import TransposeConv2d
from fourfold.types import Shape

Pair = tuple[int, int]
_POOLS = {"AVERAGE_POOL_2D": "average_pool2d", "MAX_POOL_2D": "max_pool2d"}


def _padding(
    kind: int, image: Pair, filter: Pair, stride: Pair, dilation: Pair = (1, 1)
) -> Padding:
    """Return the padding that SAME or VALID means for these sizes."""
    check_window(*filter, *stride, *dilation)
    if kind not in (SAME, VALID):
        raise ValueError(f"padding number {kind} is neither SAME nor VALID")
    if kind == VALID:
        return Padding()
    rows, columns = (same(image[i], filter[i], stride[i], dilation[i]) for i in (0, 1))
    return Padding(*rows, *columns)


def _image(shape: Shape, what: str) -> Pair:
    """Return height and width of [N,H,W,C], or of weights, which have the same layout."""
    if len(shape) != 4:
        raise ValueError(f"{what} has rank {len(shape)}, not 4")
    return shape[1], shape[2]


def _window(
    options: Conv2DOptions | DepthwiseConv2DOptions, x: Shape, kernel: Shape
) -> tuple[Pair, Pair, Padding]:
    """Return stride, dilation and padding of a convolution."""
    stride = (options.stride_h, options.stride_w)
    dilation = (options.dilation_h, options.dilation_w)
    image, filter = _image(x, "the input"), _image(kernel, "the filter")
    return stride, dilation, _padding(options.padding, image, filter, stride, dilation)


@converts("CONV_2D", weights=True)
def conv_2d(op: Operation) -> None:
    """conv2d, grouped if the weights have fewer channels than the input."""
    options, weights = op.options(Conv2DOptions), op.weights(1)
    x, kernel = op.input_type(0), op.type_of(weights)
    groups = max(x.channels // max(kernel.channels, 1), 1)
    attributes = Conv2d(*_window(options, x.shape, kernel.shape), groups)
    op.give(
        "conv2d",
        op.input(0),
        weights,
        op.optional_weights(2),
        attributes=attributes,
        activation=options.activation,
    )


@converts("DEPTHWISE_CONV_2D", weights=True)
def depthwise_conv_2d(op: Operation) -> None:
    """depthwise_conv2d."""
    options, weights = op.options(DepthwiseConv2DOptions), op.weights(1)
    x, kernel = op.input_type(0), op.type_of(weights)
    # The file's multiplier is often zero; compute it from the shapes.
    multiplier = kernel.channels // max(x.channels, 1)
    attributes = DepthwiseConv2d(*_window(options, x.shape, kernel.shape), multiplier)
    op.give(
        "depthwise_conv2d",
        op.input(0),
        weights,
        op.optional_weights(2),
        attributes=attributes,
        activation=options.activation,
    )


@converts("TRANSPOSE_CONV", weights=True)
def transpose_conv(op: Operation) -> None:
    """transpose_conv2d, with a bias if there is one."""
    options, weights = op.options(TransposeConvOptions), op.weights(1)
    output_shape = op.integers(0, "output shape")
    if len(output_shape) != 4:
        raise ValueError(f"output shape {output_shape} has rank {len(output_shape)}, not 4")
    stride = (options.stride_h, options.stride_w)
    filter = _image(op.type_of(weights).shape, "the filter")
    size = (output_shape[1], output_shape[2])
    image = _image(op.input_type(2).shape, "the input")
    if op.in_file(0) and image != _image(op.own_shape(2), "the input"):
        size = _grown(image, filter, stride, options.padding)
    padding = _padding(options.padding, size, filter, stride)
    attributes = TransposeConv2d(stride, padding, size)
    op.give(
        "transpose_conv2d",
        op.input(2),
        weights,
        op.optional_weights(3),
        attributes=attributes,
        activation=options.activation,
    )


def _grown(image: Pair, filter: Pair, stride: Pair, padding: int) -> Pair:
    """Return the output size for another input size than the file's."""
    more = (0, 0) if padding == SAME else (filter[0] - stride[0], filter[1] - stride[1])
    return image[0] * stride[0] + max(more[0], 0), image[1] * stride[1] + max(more[1], 0)


@converts("AVERAGE_POOL_2D", "MAX_POOL_2D")
def pool_2d(op: Operation) -> None:
    """the op of the same meaning, with explicit padding."""
    options = op.options(Pool2DOptions)
    filter = (options.filter_h, options.filter_w)
    stride = (options.stride_h, options.stride_w)
    image = _image(op.input_type(0).shape, "the input")
    attributes = Pool2d(filter, stride, _padding(options.padding, image, filter, stride))
    activation = options.activation
    op.give(_POOLS[op.record.op], op.input(0), attributes=attributes, activation=activation)


def _resized(op: Operation, align_corners: bool, half_pixel_centers: bool) -> Resize:
    size = op.integers(1, "size")
    if len(size) != 2:
        raise ValueError(f"size {size} is not a height and a width")
    return Resize((size[0], size[1]), align_corners, half_pixel_centers)


@converts("RESIZE_BILINEAR")
def resize_bilinear(op: Operation) -> None:
    """resize_bilinear to a constant size."""
    options = op.options(ResizeBilinearOptions)
    attributes = _resized(op, options.align_corners, options.half_pixel_centers)
    op.give("resize_bilinear", op.input(0), attributes=attributes)


@converts("RESIZE_NEAREST_NEIGHBOR")
def resize_nearest_neighbor(op: Operation) -> None:
    """resize_nearest to a constant size."""
    options = op.options(ResizeNearestNeighborOptions)
    attributes = _resized(op, options.align_corners, options.half_pixel_centers)
    op.give("resize_nearest", op.input(0), attributes=attributes)


@converts("DEPTH_TO_SPACE")
def depth_to_space(op: Operation) -> None:
    """depth_to_space."""
    block = Block(op.options(BlockOptions).block_size)
    op.give("depth_to_space", op.input(0), attributes=block)


@converts("SPACE_TO_DEPTH")
def space_to_depth(op: Operation) -> None:
    """space_to_depth."""
    block = Block(op.options(BlockOptions).block_size)
    op.give("space_to_depth", op.input(0), attributes=block)

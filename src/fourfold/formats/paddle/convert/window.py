"""Convolutions, pooling and resizing."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fourfold.formats.axes import (
    check_window,
    give_channels_first,
    require_images,
    to_channels_last,
)
from fourfold.formats.paddle.convert.pointwise import add_activation
from fourfold.formats.paddle.operation import Operation, converts
from fourfold.formats.rule_table import Unconvertible
from fourfold.formats.windows import Deconvolution, add_pool, convolve, deconvolve
from fourfold.ops.base.rules import Reduce, Resize
from fourfold.ops.base.window import Padding, Pair, PoolAxes, same
from fourfold.ops.concat import Concat
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.reshape import Reshape
from fourfold.ops.slice import Slice
from fourfold.ops.transpose import Transpose
from fourfold.types import DType, TensorType

_LAST = ("NHWC", "NDHWC")


def image_of(op: Operation, value: str) -> str:
    """Return an image as [N,H,W,C], from either layout."""
    require_images(op, value)
    if op.text("data_format", op.text("data_layout", "NCHW")) in _LAST:
        return value
    return to_channels_last(op, value)


def give_image(op: Operation, image: str) -> None:
    """Write the output from [N,H,W,C], in the operator's layout."""
    if op.text("data_format", op.text("data_layout", "NCHW")) in _LAST:
        op.give("identity", image)
    else:
        give_channels_first(op, image)


def read_padding(op: Operation, image: Pair, filter: Pair, stride: Pair) -> Padding:
    """Return the padding: explicit, for both sides or for each, or computed from the sizes."""
    algorithm = op.text("padding_algorithm", "EXPLICIT")
    if algorithm == "VALID":
        return Padding()
    if algorithm == "SAME":
        rows, columns = (same(image[i], filter[i], stride[i]) for i in (0, 1))
        return Padding(*rows, *columns)
    numbers = op.integers("paddings") or (0, 0)
    if len(numbers) == 2:
        return Padding(numbers[0], numbers[0], numbers[1], numbers[1])
    if len(numbers) != 4:
        raise ValueError(f"its paddings are {len(numbers)} numbers, not 2 or 4")
    return Padding(*numbers)


@dataclass(frozen=True)
class _Window:
    """The geometry of a convolution."""

    image: Pair
    filter: Pair
    stride: Pair
    dilation: Pair
    padding: Padding
    groups: int


def _window(op: Operation, image: str, weights: str) -> _Window:
    x, kernel = op.type_of(image), op.type_of(weights)
    if kernel.rank != 4:
        raise ValueError(f"its weights are {kernel}, not of rank 4")
    sizes, filter = (x.shape[1], x.shape[2]), (kernel.shape[2], kernel.shape[3])
    stride, dilation = op.pair("strides", 1), op.pair("dilations", 1)
    check_window(*filter, *stride, *dilation)
    if op.text("padding_algorithm") == "SAME":
        dilation = (1, 1)  # as Paddle does
    padding = read_padding(op, sizes, filter, stride)
    return _Window(sizes, filter, stride, dilation, padding, max(op.integer("groups", 1), 1))


@converts("conv2d", "depthwise_conv2d", "fused_conv2d", "conv2d_fusion", gives=("Output",))
def conv2d(op: Operation) -> None:
    """conv2d or depthwise_conv2d, with its fused activation and residual."""
    image, weights = image_of(op, op.input("Input")), op.input("Filter")
    window = _window(op, image, weights)
    attributes = Conv2d(window.stride, window.dilation, window.padding, window.groups)
    y = convolve(op, image, weights, op.optional("Bias"), attributes)
    residual = op.optional("ResidualData")
    if residual is not None:
        y = op.add("add", y, image_of(op, residual), part="rest")
    name = op.text("activation", op.text("fuse_activation"))
    give_image(op, add_activation(op, y, name) if name else y)


@converts("conv2d_transpose", "depthwise_conv2d_transpose", gives=("Output",))
def conv2d_transpose(op: Operation) -> None:
    """transpose_conv2d; narrow groups are merged."""
    image, weights = image_of(op, op.input("Input")), op.input("Filter")
    window = _window(op, image, weights)
    stride = window.stride
    attributes = Deconvolution(stride, window.dilation, window.padding, window.groups)
    output_size = op.sizes("output_size", "OutputSizeTensor")
    extra = op.pair("output_padding", 0)
    if output_size:
        minimum = attributes.size(window.image, window.filter)
        if len(output_size) != 2:
            raise ValueError(f"output size {output_size} is not a height and a width")
        extra = (output_size[0] - minimum[0], output_size[1] - minimum[1])
    if min(extra) < 0 or extra[0] >= stride[0] or extra[1] >= stride[1]:
        raise ValueError(f"{extra} rows and columns cannot be added with stride {stride}")
    attributes = replace(attributes, extra=extra)
    give_image(op, deconvolve(op, image, weights, op.optional("Bias"), attributes))


_RESIZES = {"nearest": "resize_nearest", "bilinear": "resize_bilinear"}


@converts("nearest_interp", "bilinear_interp", "nearest_interp_v2", "bilinear_interp_v2")
def interpolate(op: Operation) -> None:
    """resize_nearest or resize_bilinear to a constant size."""
    method = op.text("interp_method", op.record.type.partition("_")[0])
    if method not in _RESIZES:
        raise Unconvertible(f"{method} is not supported")
    image, corners = image_of(op, op.input("X")), op.flag("align_corners")
    half_pixel = method == "bilinear" and not corners and op.integer("align_mode", 1) == 0
    shape = op.type_of(image).shape
    attributes = Resize(_new_size(op, (shape[1], shape[2])), corners, half_pixel)
    give_image(op, op.add(_RESIZES[method], image, attributes=attributes, part="resized"))


def _new_size(op: Operation, image: Pair) -> Pair:
    size = op.sizes("", "OutSize", "SizeTensor")
    if (
        not size
        and not op.all("Scale")
        and min(op.integer("out_h", -1), op.integer("out_w", -1)) > 0
    ):
        size = (op.integer("out_h"), op.integer("out_w"))
    if not size:
        factors = op.numbers("scale")
        if op.all("Scale"):
            factors = tuple(float(number) for number in op.constant(op.input("Scale")).reshape(-1))
        factors = factors * 2 if len(factors) == 1 else factors
        if len(factors) != 2 or not all(0 < factor < 2**16 for factor in factors):
            raise ValueError(f"its scale {factors} is not valid")
        size = tuple(_scaled(image[i], factors[i]) for i in (0, 1))
    if len(size) != 2 or min(size) < 1:
        raise ValueError(f"an output size of {size} is not valid")
    return size[0], size[1]


def _scaled(size: int, factor: float) -> int:
    exact = size * factor
    if abs(exact - round(exact)) > 1e-3:
        # Paddle then computes positions from the factor instead of the sizes.
        raise Unconvertible(f"{size} pixels times {factor} is not an integer")
    return round(exact)


@converts("pixel_shuffle")
def pixel_shuffle(op: Operation) -> None:
    """depth_to_space with another channel order."""
    image, factor = image_of(op, op.input("X")), op.integer("upscale_factor", 1)
    check_window(factor)
    shuffle_up(op, image, factor)


def shuffle_up(op: Operation, image: str, factor: int) -> None:
    """Rearrange channels c * factor**2 + row * factor + column to pixels."""
    batch, height, width, channels = op.type_of(image).shape
    if channels % factor**2:
        raise ValueError(f"{channels} channels cannot be split into {factor} by {factor} blocks")
    each = channels // factor**2
    split = Reshape((batch, height, width, each, factor, factor))
    parts = op.add("reshape", image, attributes=split, part="blocks")
    turned = op.add("transpose", parts, attributes=Transpose((0, 1, 4, 2, 5, 3)), part="turned")
    merged = Reshape((batch, height * factor, width * factor, each))
    give_image(op, op.add("reshape", turned, attributes=merged, part="image"))


MAX_SLICES = 64  # windows of different lengths that are sliced one by one


@converts("pool2d")
def pool2d(op: Operation) -> None:
    """max_pool2d or average_pool2d; global ones are reduce_max or mean."""
    image, kind = image_of(op, op.input("X")), op.text("pooling_type", "max")
    if kind not in ("max", "avg"):
        raise Unconvertible(f"pooling with {kind} is not supported")
    shape, kernel_size = op.type_of(image).shape, op.sizes("ksize", "KSize")
    if op.flag("global_pooling"):
        kernel_size = (1, 1)
    if len(kernel_size) != 2:
        raise ValueError(f"its window {kernel_size} is not a height and a width")
    filter = (kernel_size[0], kernel_size[1])
    check_window(*filter)
    if op.flag("adaptive") or op.flag("global_pooling"):
        if kind == "max" and filter != (1, 1):
            raise Unconvertible("adaptive max pooling is only supported in max_pool2d_with_index")
        give_image(op, _adapted(op, image, filter, kind == "avg"))
        return
    pool = _pool(op, (shape[1], shape[2]), filter)
    counts = not op.flag("exclusive", True)
    give_image(op, add_pool(op, image, pool, kind == "avg", counts))


@converts("max_pool2d_with_index")
def max_pool2d_with_index(op: Operation) -> None:
    """max_pool2d; the indices are not computed."""
    image, filter = image_of(op, op.input("X")), op.pair("ksize")
    check_window(*filter)
    if op.flag("adaptive") or op.flag("global_pooling"):
        filter = (1, 1) if op.flag("global_pooling") else filter
        give_image(op, _adapted(op, image, filter, average=False))
        return
    shape = op.type_of(image).shape
    pool = _pool(op, (shape[1], shape[2]), filter)
    give_image(op, add_pool(op, image, pool, average=False))


def _pool(op: Operation, image: Pair, filter: Pair) -> PoolAxes:
    stride = op.pair("strides", 1)
    check_window(*stride)
    padding = read_padding(op, image, filter, stride)
    before, after = (padding.top, padding.left), (padding.bottom, padding.right)
    spaces = [image[i] + before[i] + after[i] - filter[i] for i in (0, 1)]
    up = op.flag("ceil_mode")  # the last window may start anywhere then
    size = tuple(
        (-(-space // step) if up else space // step) + 1
        for space, step in zip(spaces, stride, strict=True)
    )
    return PoolAxes(filter, stride, (1, 1), before, after, size)


def _adapted(op: Operation, image: str, size: Pair, average: bool) -> str:
    """Add an adaptive pool that divides an image into `size` rows and columns."""
    shape = op.type_of(image).shape
    if size == (1, 1):
        spatial = Reduce((1, 2), keep_dims=True)
        return op.add("mean" if average else "reduce_max", image, attributes=spatial, part="pool")
    if not (shape[1] % size[0] or shape[2] % size[1]):
        filter = (shape[1] // size[0], shape[2] // size[1])
        shares = PoolAxes(filter, filter, (1, 1), (0, 0), (0, 0), size)
        return add_pool(op, image, shares, average)
    for axis in (1, 2):
        share = _mean_along if average else _max_along
        image = share(op, image, axis, size[axis - 1])
    return image


def _bounds(size: int, count: int) -> list[tuple[int, int]]:
    """Return start and end of each window; neighbors may overlap."""
    return [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def _mean_along(op: Operation, image: str, axis: int, count: int) -> str:
    """Average windows of different lengths with a matrix product."""
    size = op.type_of(image).shape[axis]
    op.reserve(TensorType(DType.F32, (count, size)))
    matrix = np.zeros((count, size), np.float32)
    for row, (first, end) in enumerate(_bounds(size, count)):
        matrix[row, first:end] = 1.0 / (end - first)
    order = tuple(3 if i == axis else axis if i == 3 else i for i in range(4))
    last = op.add("transpose", image, attributes=Transpose(order), part=f"turned{axis}")
    weights = op.add_constant(matrix, f"shares{axis}")
    means = op.add("fully_connected", last, weights, None, part=f"means{axis}")
    return op.add("transpose", means, attributes=Transpose(order), part=f"mean{axis}")


def _max_along(op: Operation, image: str, axis: int, count: int) -> str:
    shape = op.type_of(image).shape
    if count > MAX_SLICES:
        raise Unconvertible(f"{count} windows of different lengths are too many")
    parts = []
    for number, (first, end) in enumerate(_bounds(shape[axis], count)):
        begin = tuple(first if i == axis else 0 for i in range(4))
        size = tuple(end - first if i == axis else length for i, length in enumerate(shape))
        cut = Slice(begin, size, (1,) * 4)
        window = op.add("slice", image, attributes=cut, part=f"cut{axis}_{number}")
        one = Reduce((axis,), keep_dims=True)
        parts.append(op.add("reduce_max", window, attributes=one, part=f"max{axis}_{number}"))
    return op.add("concat", *parts, attributes=Concat(axis), part=f"max{axis}")

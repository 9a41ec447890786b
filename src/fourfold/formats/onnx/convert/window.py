"""Convolutions, Col2Im, pools and max unpooling of images, rows and volumes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fourfold.formats.axes import (
    MAX_WINDOW_SIZE,
    as_pair,
    check_window,
    give_channels_first,
    to_channels_first,
    to_channels_last,
)
from fourfold.formats.budget import check_shape
from fourfold.formats.onnx.operation import Operation, converts
from fourfold.formats.rule_table import Unconvertible
from fourfold.formats.windows import Deconvolution, add_pool, convolve, count_windows, deconvolve
from fourfold.ops.base.window import Padding, Pair, PoolAxes, same
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.conv3d import Conv3d
from fourfold.ops.leaky_relu import LeakyRelu
from fourfold.ops.lp_pool import LpPool
from fourfold.ops.pad import Pad
from fourfold.ops.scatter_elements import ScatterElements
from fourfold.ops.transpose_conv2d import TransposeConv2d
from fourfold.types import DType, Shape

_ACTIVATIONS = {"Relu": "relu", "Sigmoid": "logistic", "Tanh": "tanh"}


@dataclass(frozen=True)
class Window:
    """The filter along each spatial axis, with strides, dilations and paddings before and after."""

    filter: Shape
    stride: Shape
    dilation: Shape
    padding: tuple[Pair, ...]

    @property
    def reach(self) -> Shape:
        pairs = zip(self.filter, self.dilation, strict=True)
        return tuple((taps - 1) * gap + 1 for taps, gap in pairs)

    def around(self) -> Padding:
        """Return the padding in two dimensions; a row has none above and below."""
        rows, columns = ((0, 0), *self.padding)[-2:]
        return Padding(*rows, *columns)


def read_window(op: Operation, sizes: Shape, filter: Shape) -> Window:
    """Return the window attributes of a convolution or a pool."""
    count = len(sizes)
    ones = (1,) * count
    stride = op.list_attribute("strides") or ones
    dilation = op.list_attribute("dilations") or ones
    if not len(filter) == len(stride) == len(dilation) == count:
        raise ValueError("its filter, strides and dilations do not match")
    check_window(*filter, *stride, *dilation)
    return Window(filter, stride, dilation, _padding(op, sizes, filter, stride, dilation))


def _padding(
    op: Operation, sizes: Shape, filter: Shape, stride: Shape, dilation: Shape
) -> tuple[Pair, ...]:
    kind, count = op.text_attribute("auto_pad", "NOTSET"), len(sizes)
    if kind in ("SAME_UPPER", "SAME_LOWER"):
        along = zip(sizes, filter, stride, dilation, strict=True)
        pairs = [same(*numbers) for numbers in along]
        return tuple((less, more) if kind == "SAME_UPPER" else (more, less) for less, more in pairs)
    if kind not in ("NOTSET", "VALID", ""):
        raise ValueError(f"its padding '{kind}' is not supported")
    pads = op.list_attribute("pads") if kind in ("NOTSET", "") else (0,) * 2 * count
    pads = (0,) * 2 * count if pads is None else pads
    if len(pads) != 2 * count or max(pads, default=0) > MAX_WINDOW_SIZE:
        raise ValueError(f"paddings {list(pads)} do not fit an image of {count} axes")
    if min(pads, default=0) < 0:
        raise Unconvertible(f"its paddings {list(pads)} are negative, which is not supported")
    return tuple(zip(pads[:count], pads[count:], strict=True))


@converts("Conv", "com.microsoft.FusedConv")
def conv(op: Operation) -> None:
    """conv2d, depthwise_conv2d or conv3d between transposes."""
    x, weights = op.input_type(0), op.input_type(1)
    if x.rank != weights.rank or not 3 <= x.rank <= 5:
        raise ValueError(f"{weights} is not a filter for {x}")
    window = read_window(op, x.shape[2:], weights.shape[2:])
    groups, image = op.attribute("group", 1), to_channels_last(op, op.input(0))
    if x.rank == 5:
        value = _volume(op, image, window, groups)
    else:
        stride, dilation = as_pair(window.stride), as_pair(window.dilation)
        attributes = Conv2d(stride, dilation, window.around(), groups)
        value = convolve(op, image, op.input(1), op.optional(2), attributes)
    value = to_channels_first(op, value)
    if op.optional(3) is not None:
        value = op.add("add", value, op.input(3), part="sum")
    op.give_value(_activated(op, value))


def _volume(op: Operation, image: str, window: Window, groups: int) -> str:
    if groups != 1:
        raise Unconvertible(f"{groups} groups in three dimensions are not supported")
    filters = to_channels_last(op, op.input(1), "filters")
    (a, b, c), (d, e, f), (g, h, i) = window.stride, window.dilation, window.padding
    attributes = Conv3d((a, b, c), (d, e, f), (g, h, i))
    return op.add("conv3d", image, filters, op.optional(2), attributes=attributes, part="conv")


def _activated(op: Operation, value: str) -> str:
    """Add the activation of ONNX Runtime's fused operators."""
    name, numbers = op.text_attribute("activation", ""), op.real_list_attribute("activation_params")
    if not name:
        return value
    if name in _ACTIVATIONS:
        return op.add(_ACTIVATIONS[name], value, part="activated")
    if name == "LeakyRelu" and numbers:
        return op.add("leaky_relu", value, attributes=LeakyRelu(numbers[0]), part="activated")
    if name == "Clip" and numbers and len(numbers) == 2:
        above = op.add("maximum", value, op.add_constant(numbers[0], "low"), part="above")
        return op.add("minimum", above, op.add_constant(numbers[1], "high"), part="activated")
    if name == "HardSigmoid" and numbers and len(numbers) == 2:
        scaled = op.add("mul", value, op.add_constant(numbers[0], "alpha"), part="scaled")
        shifted = op.add("add", scaled, op.add_constant(numbers[1], "beta"), part="shifted")
        return op.add("relu_0_to_1", shifted, part="activated")
    raise Unconvertible(f"its activation '{name}' is not supported")


@converts("ConvTranspose")
def conv_transpose(op: Operation) -> None:
    """transpose_conv2d between transposes; narrow groups are merged."""
    x, weights = op.input_type(0), op.input_type(1)
    if x.rank != weights.rank or x.rank not in (3, 4):
        raise Unconvertible(f"{weights} is not a filter of an image or a row")
    window = read_window(op, x.shape[2:], weights.shape[2:])
    window, extra = _enlarged(op, x.shape[2:], window)
    attributes = Deconvolution(
        as_pair(window.stride),
        as_pair(window.dilation),
        window.around(),
        op.attribute("group", 1),
        (extra[0] if len(extra) > 1 else 0, extra[-1]),
    )
    image = to_channels_last(op, op.input(0))
    value = deconvolve(op, image, op.input(1), op.optional(2), attributes)
    give_channels_first(op, value)


def _enlarged(op: Operation, sizes: Shape, window: Window) -> tuple[Window, Shape]:
    """Return the window with cropping around the result, and the rows added after it."""
    added = op.list_attribute("output_padding") or (0,) * len(sizes)
    output_shape, kind = op.list_attribute("output_shape"), op.text_attribute("auto_pad", "NOTSET")
    if len(added) != len(sizes) or (output_shape is not None and len(output_shape) < len(sizes)):
        raise ValueError("its output padding or shape does not fit its input")
    if output_shape is None and not kind.startswith("SAME"):
        return window, added
    pads, extra = [], []
    for axis, size in enumerate(sizes):
        step = window.stride[axis]
        result = size * step if output_shape is None else output_shape[axis - len(sizes)]
        full = (size - 1) * step + window.reach[axis] + added[axis]
        total = max(full - result, 0)
        less, more = total // 2, total - total // 2
        pads.append((more, less) if kind == "SAME_LOWER" else (less, more))
        extra.append(added[axis] + max(result - full, 0))
    return replace(window, padding=tuple(pads)), tuple(extra)


_MAX_FILTER_ELEMENTS = 2**22  # elements of the filters, most of which are zeros


@converts("Col2Im")
def col2im(op: Operation) -> None:
    """transpose_conv2d with one-hot filters."""
    x = op.input_type(0)
    sizes, block = op.integers(1, "image_shape"), op.integers(2, "block_shape")
    count, taps = len(sizes), math.prod(block)
    if len(block) != count or x.rank != 3 or taps < 1 or x.shape[1] % taps:
        raise ValueError(f"{x} does not hold columns of {list(block)} blocks")
    ones = (1,) * count
    stride, dilation = op.list_attribute("strides") or ones, op.list_attribute("dilations") or ones
    pads = op.list_attribute("pads") or (0,) * 2 * count
    if count > 2:
        raise Unconvertible(f"images with {count} spatial axes are not supported")
    reach = tuple((n - 1) * gap + 1 for n, gap in zip(block, dilation, strict=True))
    geometry = zip(sizes, pads[:count], pads[count:], reach, stride, strict=True)
    steps = tuple((size + before + after - r) // s + 1 for size, before, after, r, s in geometry)
    if math.prod(steps) != x.shape[2] or min(steps) < 1:
        raise ValueError(f"{x} does not have {math.prod(steps)} columns")
    channels = x.shape[1] // taps
    columns = op.transposed(op.input(0), (0, 2, 1), "columns")
    image = op.reshaped(columns, (x.shape[0], *as_pair(steps), x.shape[1]), "image")
    around = ((0, 0), *zip(pads[:count], pads[count:], strict=True))[-2:]
    padding = Padding(*around[0], *around[1])
    attributes = TransposeConv2d(as_pair(stride), padding, as_pair(sizes))
    filters = _filters(op, channels, block, dilation)
    value = op.add("transpose_conv2d", image, filters, None, attributes=attributes, part="placed")
    planes = op.transposed(value, (0, 3, 1, 2), "planes")
    op.give_value(op.reshaped(planes, (x.shape[0], channels, *sizes), "result"))


def _filters(
    op: Operation, channels: int, block: tuple[int, ...], dilation: tuple[int, ...]
) -> str:
    """Return one-hot filters [channels, height, width, channels * taps]."""
    reach = tuple((n - 1) * gap + 1 for n, gap in zip(block, dilation, strict=True))
    taps = math.prod(block)
    if channels * channels * taps * math.prod(reach) > _MAX_FILTER_ELEMENTS:
        raise Unconvertible(f"{channels} channels in blocks of {list(block)} are too many")
    filters = np.zeros((channels, *reach, channels, taps), np.float32)
    for number, tap in enumerate(np.ndindex(*block)):
        offset = tuple(at * gap for at, gap in zip(tap, dilation, strict=True))
        for channel in range(channels):
            filters[(channel, *offset, channel, number)] = 1
    return op.add_constant(filters.reshape(channels, *as_pair(reach), channels * taps), "filters")


def _pool_of(op: Operation) -> PoolAxes:
    """Return the attributes of a pool, with the size of its result."""
    x, filter = op.input_type(0), op.list_attribute("kernel_shape")
    if filter is None or x.rank < 3:
        raise ValueError(f"it cannot pool {x}")
    window = read_window(op, x.shape[2:], filter)
    up = bool(op.attribute("ceil_mode", 0))
    along = zip(x.shape[2:], window.reach, window.stride, window.padding, strict=True)
    sizes = tuple(count_windows(*numbers, up) for numbers in along)
    before, after = (tuple(pair[side] for pair in window.padding) for side in (0, 1))
    return PoolAxes(window.filter, window.stride, window.dilation, before, after, sizes)


def _pooled(op: Operation, name: str, attributes: PoolAxes) -> str:
    """Add a pool between transposes."""
    value = op.add(name, to_channels_last(op, op.input(0)), attributes=attributes, part="pool")
    return to_channels_first(op, value)


@converts("AveragePool", "MaxPool")
def pool(op: Operation) -> None:
    """max_pool2d or average_pool2d between transposes, else max_pool or average_pool."""
    attributes, average = _pool_of(op), op.record.op == "AveragePool"
    image, counts = to_channels_last(op, op.input(0)), bool(op.attribute("count_include_pad", 0))
    give_channels_first(op, add_pool(op, image, attributes, average, counts))
    if op.output(1) is not None:
        _give_indices(op, attributes)


@converts("LpPool")
def lp_pool(op: Operation) -> None:
    """lp_pool between transposes."""
    order = op.attribute("p", 2)
    if order < 1:
        raise ValueError(f"a norm of order {order} is not valid")
    attributes = LpPool(**vars(_pool_of(op)), p=order)
    op.give_value(_pooled(op, "lp_pool", attributes))


@converts("GlobalLpPool")
def global_lp_pool(op: Operation) -> None:
    """lp_pool with a window as large as the image."""
    inner = op.input_type(0).shape[2:]
    ones, zeros = (1,) * len(inner), (0,) * len(inner)
    attributes = LpPool(inner, ones, ones, zeros, zeros, ones, p=op.attribute("p", 2))
    op.give_value(_pooled(op, "lp_pool", attributes))


def _give_indices(op: Operation, attributes: PoolAxes) -> None:
    """Write the second output of MaxPool: the index of each maximum in the whole tensor."""
    x = op.input_type(0)
    planes, area = x.shape[0] * x.shape[1], math.prod(x.shape[2:])
    indices = _pooled(op, "max_pool_index", attributes)
    if op.attribute("storage_order", 0):
        indices = _by_columns(op, indices, x.shape[2:])
    starts = np.arange(planes, dtype=np.int32).reshape(*x.shape[:2], *(1,) * (x.rank - 2)) * area
    indices = op.add(
        "add", indices, op.add_constant(starts.astype(np.int32), "starts"), part="places"
    )
    op.give_value(op.converted(indices, DType.I64, "whole"), 1)


def _by_columns(op: Operation, value: str, sizes: Shape) -> str:
    """Convert row-major pixel indices to column-major ones."""
    if len(sizes) != 2:
        raise Unconvertible("column-major indices are only supported for images")
    height, width = (op.add_constant(np.array(size, np.int32), f"size{size}") for size in sizes)
    row = op.add("div", value, width, part="row")
    column = op.add("remainder", value, width, part="column")
    return op.add("add", op.add("mul", column, height, part="above"), row, part="number")


@converts("MaxUnpool")
def max_unpool(op: Operation) -> None:
    """scatter_elements into zeros, and pad to a larger output shape."""
    x = op.input_type(0)
    window = read_window(op, x.shape[2:], op.list_attribute("kernel_shape") or ())
    sizes = zip(x.shape[2:], window.stride, window.filter, window.padding, strict=True)
    inner = ((size - 1) * step + taps - sum(pads) for size, step, taps, pads in sizes)
    shape = (*x.shape[:2], *inner)
    check_shape(shape)
    op.reserve(x.with_shape(*shape))
    zeros = op.add_constant(np.zeros(math.prod(shape), x.dtype.numpy), "zeros")
    flat, updates = (op.reshaped(op.input(n), (x.elements,), f"flat{n}") for n in (1, 0))
    put = ScatterElements()
    value = op.add("scatter_elements", zeros, flat, updates, attributes=put, part="put")
    value = op.reshaped(value, shape, "planes")
    if op.optional(2) is not None:
        output_shape = op.integers(2, "output_shape")
        if len(output_shape) != x.rank or any(
            a < b for a, b in zip(output_shape, shape, strict=True)
        ):
            raise ValueError(f"{list(shape)} cannot be padded to {list(output_shape)}")
        after = tuple(a - b for a, b in zip(output_shape, shape, strict=True))
        value = op.add("pad", value, attributes=Pad((0,) * x.rank, after), part="padded")
    op.give_value(value)

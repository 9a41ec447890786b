"""Convolutions and Col2Im."""

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
from fourfold.formats.onnx.operation import Operation, converts
from fourfold.formats.rule_table import Unconvertible
from fourfold.formats.windows import Deconvolution, convolve, deconvolve
from fourfold.ops.base.window import Padding, Pair, same
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.conv3d import Conv3d
from fourfold.ops.leaky_relu import LeakyRelu
from fourfold.ops.transpose_conv2d import TransposeConv2d
from fourfold.types import Shape

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

"""Operators that slide a window over an image: convolutions.

ONNX has images as [N,C,H,W], graphs have them as [N,H,W,C]: each operator stands between two
transposes, which rewrites push together until they cancel. A row [N,C,L] is an image of one line.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.formats.onnx.operation import Operation
from fourfold.formats.onnx.rule import converts
from fourfold.formats.refusal import Unconvertible
from fourfold.op.window import Padding, Pair
from fourfold.ops.concat import Concat
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.conv3d import Conv3d
from fourfold.ops.depthwise_conv2d import DepthwiseConv2d
from fourfold.ops.leaky_relu import LeakyRelu
from fourfold.ops.slice import Slice
from fourfold.ops.transpose_conv2d import TransposeConv2d
from fourfold.types import Shape

_LIMIT = 2**20  # no stride, dilation or filter of a real model comes near it
_ACTIVATIONS = {"Relu": "relu", "Sigmoid": "logistic", "Tanh": "tanh"}


@dataclass(frozen=True)
class Window:
    """The filter along each axis of an image, and how it steps; paddings are before and after."""

    filter: Shape
    stride: Shape
    dilation: Shape
    padding: tuple[Pair, ...]

    @property
    def reach(self) -> Shape:
        pairs = zip(self.filter, self.dilation, strict=True)
        return tuple((taps - 1) * gap + 1 for taps, gap in pairs)

    def image(self) -> tuple[Pair, Pair, Pair, Padding]:
        """Filter, stride, dilation and padding in two dimensions: a row has a height of one."""
        filter, stride, dilation = (
            as_pair(numbers) for numbers in (self.filter, self.stride, self.dilation)
        )
        rows, columns = ((0, 0), *self.padding)[-2:]
        return filter, stride, dilation, Padding(*rows, *columns)


def as_pair(numbers: Shape) -> Pair:
    """Numbers of an image; those of a row have a one before them."""
    first, second = (1, *numbers)[-2:]
    return first, second


def read_window(op: Operation, sizes: Shape, filter: Shape) -> Window:
    """What the attributes of a convolution or a pool say."""
    count = len(sizes)
    ones = (1,) * count
    stride = op.list_attribute("strides") or ones
    dilation = op.list_attribute("dilations") or ones
    numbers = (*filter, *stride, *dilation)
    if not len(filter) == len(stride) == len(dilation) == count:
        raise ValueError("its filter, strides and dilations do not belong together")
    if min(numbers, default=1) < 1 or max(numbers, default=1) > _LIMIT:
        raise ValueError(f"filter {filter}, stride {stride} or dilation {dilation} is not possible")
    return Window(filter, stride, dilation, _padding(op, sizes, filter, stride, dilation))


def _padding(
    op: Operation, sizes: Shape, filter: Shape, stride: Shape, dilation: Shape
) -> tuple[Pair, ...]:
    kind, count = op.text_attribute("auto_pad", "NOTSET"), len(sizes)
    if kind in ("SAME_UPPER", "SAME_LOWER"):
        found = []
        for size, taps, step, gap in zip(sizes, filter, stride, dilation, strict=True):
            total = max((-(-size // step) - 1) * step + (taps - 1) * gap + 1 - size, 0)
            less, more = total // 2, total - total // 2
            found.append((less, more) if kind == "SAME_UPPER" else (more, less))
        return tuple(found)
    if kind not in ("NOTSET", "VALID", ""):
        raise ValueError(f"its padding '{kind}' is not known")
    pads = op.list_attribute("pads") if kind in ("NOTSET", "") else (0,) * 2 * count
    pads = (0,) * 2 * count if pads is None else pads
    if len(pads) != 2 * count or max(pads, default=0) > _LIMIT:
        raise ValueError(f"paddings {list(pads)} do not fit an image of {count} axes")
    if min(pads, default=0) < 0:
        raise Unconvertible(f"its paddings {list(pads)} cut something off")
    return tuple(zip(pads[:count], pads[count:], strict=True))


def channels_last(op: Operation, value: str, part: str = "image") -> str:
    """[N,C,H,W] as [N,H,W,C], and [N,C,L] as [N,1,L,C]."""
    shape = op.type_of(value).shape
    if len(shape) < 3:
        raise ValueError(f"{op.type_of(value)} is not an image")
    turned = op.transposed(value, (0, *range(2, len(shape)), 1), part)
    if len(shape) == 3:
        turned = op.reshaped(turned, (shape[0], 1, shape[2], shape[1]), f"{part}_line")
    return turned


def channels_first(op: Operation, value: str, rank: int) -> str:
    """The way back."""
    if rank == 3:
        images, _, length, channels = op.type_of(value).shape
        value = op.reshaped(value, (images, length, channels), "line")
    return op.transposed(value, (0, rank - 1, *range(1, rank - 1)), "planes")


@converts("Conv", "com.microsoft.FusedConv")
def conv(op: Operation) -> None:
    """conv2d, depthwise_conv2d or conv3d between transposes."""
    x, weights = op.input_type(0), op.input_type(1)
    if x.rank != weights.rank or not 3 <= x.rank <= 5:
        raise ValueError(f"{weights} is no filter for {x}")
    window = read_window(op, x.shape[2:], weights.shape[2:])
    groups, image = op.attribute("group", 1), channels_last(op, op.input(0))
    if x.rank == 5:
        value = _volume(op, image, window, groups)
    elif groups > 1 and groups == x.shape[1] and weights.shape[1] == 1 and _are_known(op):
        value = _depthwise(op, image, window)
    else:
        _, stride, dilation, padding = window.image()
        filters = channels_last(op, op.input(1), "filters")
        attributes = Conv2d(stride, dilation, padding, groups)
        inputs = (image, filters, op.optional(2))
        value = op.add("conv2d", *inputs, attributes=attributes, part="conv")
    value = channels_first(op, value, x.rank)
    if op.optional(3) is not None:
        value = op.add("add", value, op.input(3), part="sum")
    op.give_value(_activated(op, value))


def _are_known(op: Operation) -> bool:
    """Whether weights and bias are constants."""
    bias = op.optional(2)
    return op.known(op.input(1)) is not None and (bias is None or op.known(bias) is not None)


def _depthwise(op: Operation, image: str, window: Window) -> str:
    channels, weights = op.input_type(0).shape[1], op.input_type(1).shape
    _, stride, dilation, padding = window.image()
    rank = len(weights)
    filters = op.transposed(op.input(1), (1, *range(2, rank), 0), "filters")
    if rank == 3:
        filters = op.reshaped(filters, (1, 1, weights[2], weights[0]), "filters_line")
    attributes = DepthwiseConv2d(stride, dilation, padding, weights[0] // channels)
    inputs = (image, filters, op.optional(2))
    return op.add("depthwise_conv2d", *inputs, attributes=attributes, part="conv")


def _volume(op: Operation, image: str, window: Window, groups: int) -> str:
    if groups != 1:
        raise Unconvertible(f"it has {groups} groups in three dimensions")
    filters = op.transposed(op.input(1), (0, 2, 3, 4, 1), "filters")
    (a, b, c), (d, e, f), (g, h, i) = window.stride, window.dilation, window.padding
    attributes = Conv3d((a, b, c), (d, e, f), (g, h, i))
    return op.add("conv3d", image, filters, op.optional(2), attributes=attributes, part="conv")


def _activated(op: Operation, value: str) -> str:
    """The activation that ONNX Runtime's fused operators carry."""
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
    raise Unconvertible(f"its activation '{name}' is not known yet")


@converts("ConvTranspose")
def conv_transpose(op: Operation) -> None:
    """transpose_conv2d between transposes, one for each group."""
    x, weights = op.input_type(0), op.input_type(1)
    if x.rank != weights.rank or x.rank not in (3, 4):
        raise Unconvertible(f"{weights} is no filter of an image or a row")
    window = read_window(op, x.shape[2:], weights.shape[2:])
    sizes, padding = _enlarged(op, x.shape[2:], window)
    filters = _spread_filters(op, window)
    placed = Window(window.reach, window.stride, (1,) * len(sizes), padding)
    _, stride, _, around = placed.image()
    attributes = TransposeConv2d(stride, around, as_pair(sizes))
    image, groups = channels_last(op, op.input(0)), op.attribute("group", 1)
    if groups < 1 or x.shape[1] % groups or x.shape[1] != weights.shape[0]:
        raise ValueError(f"{weights} in {groups} groups cannot read {x}")
    parts = [
        op.add(
            "transpose_conv2d",
            _channels(op, image, group, groups),
            _filters_of(op, filters, group, groups),
            op.optional(2) if groups == 1 else None,
            attributes=attributes,
            part="conv",
        )
        for group in range(groups)
    ]
    value = parts[0]
    if groups > 1:
        value = op.add("concat", *parts, attributes=Concat(3), part="joined")
        if op.optional(2) is not None:
            value = op.add("add", value, op.input(2), part="biased")
    op.give_value(channels_first(op, value, x.rank))


def _enlarged(op: Operation, sizes: Shape, window: Window) -> tuple[Shape, tuple[Pair, ...]]:
    """The sizes of the result, and what is cut off around it."""
    extra = op.list_attribute("output_padding") or (0,) * len(sizes)
    wanted = op.list_attribute("output_shape")
    lower = op.text_attribute("auto_pad", "NOTSET") == "SAME_LOWER"
    same = op.text_attribute("auto_pad", "NOTSET").startswith("SAME")
    found, pads = [], []
    if len(extra) != len(sizes) or (wanted is not None and len(wanted) < len(sizes)):
        raise ValueError("its output padding or shape does not fit its input")
    for axis, size in enumerate(sizes):
        step, more = window.stride[axis], extra[axis]
        full = (size - 1) * step + window.reach[axis] + more
        if wanted is None and not same:
            before, after = window.padding[axis]
        else:
            result = size * step if wanted is None else wanted[axis - len(sizes)]
            total = max(full - result, 0)
            half, full = total // 2, max(full, result)
            before, after = (total - half, half) if lower else (half, total - half)
        found.append(full - before - after)
        pads.append((before, after))
    return tuple(found), tuple(pads)


def _spread_filters(op: Operation, window: Window) -> str:
    """The filters [O,H,W,I] of all groups, with zeros between taps that lie apart."""
    weights = op.input(1)
    if any(gap > 1 for gap in window.dilation):
        known = op.known(weights)
        if known is None:
            raise Unconvertible("its filter lies apart and is computed at run time")
        op.reserve(op.type_of(weights).with_shape(*known.shape[:2], *window.reach))
        spread = np.zeros((*known.shape[:2], *window.reach), known.dtype)
        taps: tuple[slice, ...] = tuple(slice(None, None, gap) for gap in window.dilation)
        spread[(slice(None), slice(None), *taps)] = known
        weights = op.add_constant(spread, "spread")
    rank = op.type_of(weights).rank
    turned = op.transposed(weights, (1, *range(2, rank), 0), "filters")
    shape = op.type_of(turned).shape
    return op.reshaped(turned, (shape[0], 1, *shape[1:]), "line") if rank == 3 else turned


def _channels(op: Operation, image: str, group: int, groups: int) -> str:
    if groups == 1:
        return image
    shape = op.type_of(image).shape
    count = shape[3] // groups
    box = Slice((0, 0, 0, group * count), (*shape[:3], count), (1, 1, 1, 1))
    return op.add("slice", image, attributes=box, part=f"group{group}")


def _filters_of(op: Operation, filters: str, group: int, groups: int) -> str:
    """Filters are [M/groups,H,W,C]: each group has its part of the last axis."""
    return _channels(op, filters, group, groups)

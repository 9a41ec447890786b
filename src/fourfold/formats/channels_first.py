"""Layers over images of [N,C,H,W], as nodes over [N,H,W,C] between two transposes.

Weights that are constants are transposed at once; the transposes of values stay, and rewrites push
them together until they cancel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.formats.operator_nodes import OperatorNodes
from fourfold.formats.refusal import Unconvertible
from fourfold.op.window import NO_PADDING, Padding, Pair, Pool2d
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.depthwise_conv2d import DepthwiseConv2d
from fourfold.ops.pad import Pad
from fourfold.ops.transpose import Transpose
from fourfold.ops.transpose_conv2d import TransposeConv2d

TO_LAST, TO_FIRST = Transpose((0, 2, 3, 1)), Transpose((0, 3, 1, 2))
LARGEST = 2**20  # no stride, dilation, padding or filter of a real model comes near it
MOST_ZEROS = 2**26  # elements of weights that are written out over all groups


def to_channels_last(nodes: OperatorNodes, value: str, part: str = "last") -> str:
    """An image of [N,C,H,W] as [N,H,W,C]."""
    if nodes.type_of(value).rank != 4:
        raise Unconvertible(f"its input is {nodes.type_of(value)}, which is no batch of images")
    return nodes.add("transpose", value, attributes=TO_LAST, part=part)


def give_channels_first(nodes: OperatorNodes, image: str, output: int = 0) -> None:
    """An image of [N,H,W,C] as an output of [N,C,H,W]."""
    nodes.give("transpose", image, attributes=TO_FIRST, output=output)


def check_window(*sizes: int) -> None:
    """Filters, strides and dilations must be possible."""
    if min(sizes) < 1 or max(sizes) > LARGEST:
        raise ValueError(f"a filter, stride or dilation among {sizes} is not possible")


def check_padding(padding: Padding) -> None:
    sizes = (*padding.height, *padding.width)
    if min(sizes) < 0 or max(sizes) > LARGEST:
        raise ValueError(f"padding {sizes} is not possible")


def convolve(
    nodes: OperatorNodes, image: str, weights: str, bias: str | None, attributes: Conv2d
) -> str:
    """A convolution of [N,H,W,C] by weights of [O,I / groups,H,W]; its result is [N,H,W,O]."""
    kind = nodes.type_of(weights)
    if kind.rank != 4:
        raise ValueError(f"its weights are {kind}, not [O,I,H,W]")
    check_window(*kind.shape[2:], *attributes.stride, *attributes.dilation)
    check_padding(attributes.padding)
    channels, groups = nodes.type_of(image).channels, attributes.groups
    if groups > 1 and groups == channels and kind.shape[1] == 1 and kind.shape[0] % groups == 0:
        multiplier = kind.shape[0] // groups
        window = (attributes.stride, attributes.dilation, attributes.padding)
        filters = _transposed(nodes, weights, (1, 2, 3, 0))
        inputs, each = (image, filters, bias), DepthwiseConv2d(*window, multiplier)
        return nodes.add("depthwise_conv2d", *inputs, attributes=each, part="sum")
    filters = _transposed(nodes, weights, (0, 2, 3, 1))
    return nodes.add("conv2d", image, filters, bias, attributes=attributes, part="sum")


def _transposed(nodes: OperatorNodes, weights: str, order: tuple[int, ...]) -> str:
    """Weights that are known keep to no budget here: they take what the file holds, once more."""
    array = nodes.known(weights)
    if array is None:
        return nodes.add("transpose", weights, attributes=Transpose(order), part="filters")
    return nodes.add_constant(np.ascontiguousarray(array.transpose(order)), "filters")


@dataclass(frozen=True)
class Deconvolution:
    """A convolution turned around: `padding` is cut off, `extra` rows and columns are added."""

    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    padding: Padding = NO_PADDING
    groups: int = 1
    extra: Pair = (0, 0)

    def size(self, image: Pair, filter: Pair) -> Pair:
        """The height and width that it gives."""
        reach = [(filter[i] - 1) * self.dilation[i] + 1 for i in (0, 1)]
        pads = (sum(self.padding.height), sum(self.padding.width))
        height, width = (
            (image[i] - 1) * self.stride[i] + reach[i] - pads[i] + self.extra[i] for i in (0, 1)
        )
        return height, width


def deconvolve(
    nodes: OperatorNodes, image: str, weights: str, bias: str | None, attributes: Deconvolution
) -> str:
    """A transposed convolution of [N,H,W,I] by weights of [I,O / groups,H,W]."""
    array, x = nodes.known(weights), nodes.type_of(image)
    if array is None:
        raise Unconvertible("its weights are computed at run time")
    if array.ndim != 4 or array.shape[0] != x.channels:
        raise ValueError(f"weights of {list(array.shape)} cannot read {x}")
    check_window(*array.shape[2:], *attributes.stride, *attributes.dilation)
    check_padding(attributes.padding)
    filters = _spread(_ungrouped(array, attributes.groups), attributes.dilation)
    size = attributes.size((x.shape[1], x.shape[2]), (array.shape[2], array.shape[3]))
    if min(size) < 1:
        raise ValueError(f"it would give an image of {size}")
    turned = TransposeConv2d(attributes.stride, attributes.padding, size)
    name = nodes.add_constant(np.ascontiguousarray(filters.transpose(1, 2, 3, 0)), "filters")
    return nodes.add("transpose_conv2d", image, name, bias, attributes=turned, part="sum")


def _ungrouped(array: np.ndarray, groups: int) -> np.ndarray:
    """Weights of [I,O / groups,H,W] as [I,O,H,W], with zeros between groups."""
    if groups == 1:
        return array
    inputs, outputs = array.shape[:2]
    if groups < 1 or inputs % groups or not array.size:
        raise ValueError(f"{groups} groups do not divide {inputs} channels")
    if array.size * groups > MOST_ZEROS:
        raise Unconvertible(f"its {groups} groups are too many to be written out as one")
    whole = np.zeros((inputs, outputs * groups, *array.shape[2:]), array.dtype)
    each = inputs // groups
    for group in range(groups):
        rows = slice(group * each, (group + 1) * each)
        whole[rows, group * outputs : (group + 1) * outputs] = array[rows]
    return whole


def _spread(array: np.ndarray, dilation: Pair) -> np.ndarray:
    """Filters with zeros between their taps."""
    if dilation == (1, 1):
        return array
    height, width = ((array.shape[2 + i] - 1) * dilation[i] + 1 for i in (0, 1))
    if array.shape[0] * array.shape[1] * height * width > MOST_ZEROS:
        raise Unconvertible("its filters are too large to be written out")
    wide = np.zeros((*array.shape[:2], height, width), array.dtype)
    wide[:, :, :: dilation[0], :: dilation[1]] = array
    return wide


@dataclass(frozen=True)
class ImagePool:
    """A pool that may count some of its padding, as zeros, and may go beyond the image.

    `counted` is padding that averages count; `padding` all of it, what the last windows need to
    fit in included.
    """

    filter: Pair
    stride: Pair
    padding: Padding = NO_PADDING
    counted: Padding = NO_PADDING


def pool_image(nodes: OperatorNodes, image: str, attributes: ImagePool, average: bool) -> str:
    """A pool over [N,H,W,C]."""
    check_window(*attributes.filter, *attributes.stride)
    check_padding(attributes.padding)
    padding, zeros = attributes.padding, attributes.counted
    if average and zeros != NO_PADDING:
        before, after = (0, zeros.top, zeros.left, 0), (0, zeros.bottom, zeros.right, 0)
        image = nodes.add("pad", image, attributes=Pad(before, after), part="padded")
        padding = Padding(
            padding.top - zeros.top,
            padding.bottom - zeros.bottom,
            padding.left - zeros.left,
            padding.right - zeros.right,
        )
    op = "average_pool2d" if average else "max_pool2d"
    pool = Pool2d(attributes.filter, attributes.stride, padding)
    return nodes.add(op, image, attributes=pool, part="pool")


def ceil_padding(size: int, filter: int, stride: int, before: int, count: int) -> int:
    """How much padding behind an image lets so many windows fit, the last one not wholly."""
    return max((count - 1) * stride + filter - size - before, 0)

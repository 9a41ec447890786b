"""Convolutions, transposed convolutions and pools for formats with channels first ([O,I,H,W])."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fourfold.formats.axes import as_pair, check_padding, check_window, with_line, without_line
from fourfold.formats.operator_nodes import OperatorNodes
from fourfold.formats.rule_table import Unconvertible
from fourfold.ops.average_pool import AveragePool
from fourfold.ops.base.window import NO_PADDING, Padding, Pair, Pool2d, PoolAxes
from fourfold.ops.concat import Concat
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.depthwise_conv2d import DepthwiseConv2d
from fourfold.ops.pad import Pad
from fourfold.ops.slice import Slice
from fourfold.ops.transpose_conv2d import TransposeConv2d
from fourfold.types import Shape, TensorType

MAX_SPLIT_GROUPS = 32  # groups that are split into one node each
VECTOR_CHANNELS = 4  # channels that fill a vector of a kernel


def convolve(
    nodes: OperatorNodes, image: str, weights: str, bias: str | None, attributes: Conv2d
) -> str:
    """Convolve [N,...,I] with weights [O,I / groups,...]; the result is [N,...,O]."""
    x, kind = nodes.type_of(image), nodes.type_of(weights)
    if x.rank != kind.rank or x.rank not in (3, 4):
        raise ValueError(f"{kind} is not a filter for {x}")
    check_window(*kind.shape[2:], *attributes.stride, *attributes.dilation)
    check_padding(*attributes.padding.height, *attributes.padding.width)
    source, filters = with_line(nodes, image), _filters_with_line(nodes, weights)
    if _is_depthwise(nodes, x, weights, bias, attributes.groups):
        each = DepthwiseConv2d(
            stride=attributes.stride,
            dilation=attributes.dilation,
            padding=attributes.padding,
            multiplier=kind.shape[0] // attributes.groups,
        )
        turned = nodes.transposed(filters, (1, 2, 3, 0), "filters")
        result = nodes.add("depthwise_conv2d", source, turned, bias, attributes=each, part="conv")
    else:
        turned = nodes.transposed(filters, (0, 2, 3, 1), "filters")
        result = nodes.add("conv2d", source, turned, bias, attributes=attributes, part="conv")
    return without_line(nodes, result, x.rank)


def _is_depthwise(
    nodes: OperatorNodes, x: TensorType, weights: str, bias: str | None, groups: int
) -> bool:
    """Return True if every channel is its own group and weights and bias are constants."""
    shape = nodes.type_of(weights).shape
    is_constant = nodes.known(weights) is not None and (
        bias is None or nodes.known(bias) is not None
    )
    one_channel_groups = groups == x.channels and shape[1] == 1 and shape[0] % groups == 0
    return groups > 1 and one_channel_groups and is_constant


def _filters_with_line(nodes: OperatorNodes, weights: str) -> str:
    """Return filters of rows, [O,I,L], as filters of images with one line."""
    shape = nodes.type_of(weights).shape
    if len(shape) != 3:
        return weights
    return nodes.reshaped(weights, (*shape[:2], 1, shape[2]), "filters_line")


@dataclass(frozen=True)
class Deconvolution:
    """A transposed convolution: `padding` is cropped, `extra` rows and columns are added."""

    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    padding: Padding = NO_PADDING
    groups: int = 1
    extra: Pair = (0, 0)

    def size(self, image: Pair, filter: Pair) -> Pair:
        """Return the output height and width."""
        reach = [(filter[i] - 1) * self.dilation[i] + 1 for i in (0, 1)]
        pads = (sum(self.padding.height), sum(self.padding.width))
        height, width = (
            (image[i] - 1) * self.stride[i] + reach[i] - pads[i] + self.extra[i] for i in (0, 1)
        )
        return height, width


def deconvolve(
    nodes: OperatorNodes, image: str, weights: str, bias: str | None, attributes: Deconvolution
) -> str:
    """Apply a transposed convolution to [N,...,I] with weights [I,O / groups,...]."""
    x, kind, groups = nodes.type_of(image), nodes.type_of(weights), attributes.groups
    if x.rank != kind.rank or x.rank not in (3, 4):
        raise Unconvertible(f"{kind} is not a filter of an image or a row")
    if groups < 1 or x.channels % groups or x.channels != kind.shape[0]:
        raise ValueError(f"{kind} in {groups} groups cannot read {x}")
    check_window(*kind.shape[2:], *attributes.stride, *attributes.dilation)
    check_padding(*attributes.padding.height, *attributes.padding.width)
    source, filters = with_line(nodes, image), _filters_with_line(nodes, weights)
    sizes, taps = nodes.type_of(source).shape, nodes.type_of(filters).shape
    size = attributes.size((sizes[1], sizes[2]), (taps[2], taps[3]))
    if min(size) < 1:
        raise ValueError(f"its result would have the size {size}")
    turned = TransposeConv2d(attributes.stride, attributes.padding, size)
    filters = _spread(nodes, filters, attributes.dilation)
    filters, groups = _merged_groups(nodes, filters, groups)
    inputs = (source, nodes.transposed(filters, (1, 2, 3, 0), "filters"), bias)
    if groups > 1:
        result = _by_groups(nodes, inputs, turned, groups)
    else:
        result = nodes.add("transpose_conv2d", *inputs, attributes=turned, part="conv")
    return without_line(nodes, result, x.rank)


def _spread(nodes: OperatorNodes, filters: str, dilation: Pair) -> str:
    """Return dilated filters as dense filters with zeros between the taps."""
    if dilation == (1, 1):
        return filters
    array = nodes.known(filters)
    if array is None:
        raise Unconvertible("its dilated filter is computed at run time")
    height, width = ((array.shape[2 + i] - 1) * dilation[i] + 1 for i in (0, 1))
    shape = (*array.shape[:2], height, width)
    nodes.reserve(nodes.type_of(filters).with_shape(*shape), array.nbytes)
    wide = np.zeros(shape, array.dtype)
    wide[:, :, :: dilation[0], :: dilation[1]] = array
    return nodes.add_constant(wide, "spread")


def _merged_groups(nodes: OperatorNodes, filters: str, groups: int) -> tuple[str, int]:
    """Merge groups of filters [I,O / groups,H,W] by filling with zeros.

    The result has few enough groups for one node each, and enough channels per group for a kernel.
    """
    array, (inputs, outputs, *taps) = nodes.known(filters), nodes.type_of(filters).shape
    each = inputs // groups
    new_groups = next(
        count
        for count in range(min(groups, MAX_SPLIT_GROUPS), 0, -1)
        if groups % count == 0
        and (count == 1 or groups // count * min(each, outputs) >= VECTOR_CHANNELS)
    )
    merged = groups // new_groups
    if array is None or merged == 1:
        return filters, groups
    shape = (inputs, outputs * merged, *taps)
    nodes.reserve(nodes.type_of(filters).with_shape(*shape), array.nbytes)
    dense = np.zeros(shape, array.dtype)
    for group in range(groups):
        rows, first = slice(group * each, (group + 1) * each), group % merged * outputs
        dense[rows, first : first + outputs] = array[rows]
    return nodes.add_constant(dense, "merged"), new_groups


def _by_groups(
    nodes: OperatorNodes,
    inputs: tuple[str, str, str | None],
    attributes: TransposeConv2d,
    groups: int,
) -> str:
    """Add a node per group, concatenate their channels and add the bias."""
    if groups > MAX_SPLIT_GROUPS:
        raise Unconvertible(
            f"its {groups} groups are more than the {MAX_SPLIT_GROUPS} that can be split"
        )
    image, filters, bias = inputs
    parts = [
        nodes.add(
            "transpose_conv2d",
            _last_part(nodes, image, group, groups),
            _last_part(nodes, filters, group, groups),
            None,
            attributes=attributes,
            part="conv",
        )
        for group in range(groups)
    ]
    value = nodes.add("concat", *parts, attributes=Concat(3), part="joined")
    return value if bias is None else nodes.add("add", value, bias, part="biased")


def _last_part(nodes: OperatorNodes, value: str, group: int, groups: int) -> str:
    """Return the slice of the last axis that belongs to a group."""
    shape = nodes.type_of(value).shape
    count = shape[3] // groups
    box = Slice((0, 0, 0, group * count), (*shape[:3], count), (1, 1, 1, 1))
    return nodes.add("slice", value, attributes=box, part=f"group{group}")


def count_windows(size: int, reach: int, stride: int, padding: Pair, up: bool) -> int:
    """Return the number of windows along an axis.

    With `up`, the last one may extend past the end, unless it would start in the padding there.
    """
    space = size + sum(padding) - reach
    count = (-(-space // stride) if up else space // stride) + 1
    if count < 1:
        raise ValueError(f"a window of {reach} is larger than the padded {size + sum(padding)}")
    return count - (count > 1 and (count - 1) * stride >= size + padding[0])


def add_pool(
    nodes: OperatorNodes,
    image: str,
    attributes: PoolAxes,
    average: bool,
    counts_padding: bool = False,
) -> str:
    """Add a pool of [N,...,C].

    An average may count the padding, but never positions beyond it that a last window covers.
    """
    check_window(*attributes.filter, *attributes.stride, *attributes.dilation)
    check_padding(*attributes.before, *attributes.after)
    if average and counts_padding and _is_flat(attributes):
        image, attributes = _padded(nodes, image, attributes)
    x = nodes.type_of(image)
    plain = _plain(attributes, x.shape[1:-1])
    if plain is not None and x.dtype.is_float:
        name = "average_pool2d" if average else "max_pool2d"
        value = nodes.add(name, with_line(nodes, image), attributes=plain, part="pool")
        return without_line(nodes, value, x.rank)
    if not average:
        return nodes.add("max_pool", image, attributes=attributes, part="pool")
    wide = AveragePool(**vars(attributes), counts_padding=counts_padding)
    return nodes.add("average_pool", image, attributes=wide, part="pool")


def _is_flat(attributes: PoolAxes) -> bool:
    """Return True for a pool of an image or a row without dilation."""
    return attributes.axes <= 2 and max(attributes.dilation) == 1


def _padded(nodes: OperatorNodes, image: str, attributes: PoolAxes) -> tuple[str, PoolAxes]:
    """Pad the image with zeros instead of the pool, which is faster than counting padding."""
    if not any(attributes.before + attributes.after):
        return image, attributes
    pad = Pad((0, *attributes.before, 0), (0, *attributes.after, 0))
    none = (0,) * attributes.axes
    inner = replace(attributes, before=none, after=none)
    return nodes.add("pad", image, attributes=pad, part="padded"), inner


def _plain(attributes: PoolAxes, sizes: Shape) -> Pool2d | None:
    """Return the attributes as those of a 2-D pool; None if it cannot be expressed as one.

    Positions that the last window covers beyond the end become padding.
    """
    if not _is_flat(attributes):
        return None
    around = [(0, 0)] * (2 - attributes.axes)
    for axis in range(attributes.axes):
        reach = (attributes.size[axis] - 1) * attributes.stride[axis] + attributes.filter[axis]
        before = attributes.before[axis]
        around.append((before, max(reach - sizes[axis] - before, 0)))
    filter, stride = as_pair(attributes.filter), as_pair(attributes.stride)
    if any(max(pads) >= taps for pads, taps in zip(around, filter, strict=True)):
        return None
    return Pool2d(filter, stride, Padding(*around[0], *around[1]))

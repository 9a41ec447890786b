"""Col2Im: sums overlapping blocks of an image that are stored as columns."""

from __future__ import annotations

import math

import numpy as np

from fourfold.formats.channels_first import as_pair
from fourfold.formats.onnx.operation import Operation
from fourfold.formats.onnx.rule import converts
from fourfold.formats.refusal import Unconvertible
from fourfold.op.window import Padding
from fourfold.ops.transpose_conv2d import TransposeConv2d

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

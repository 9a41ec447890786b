"""Pools of images, rows and volumes, and the way back from the largest."""

from __future__ import annotations

import math

import numpy as np

from fourfold.formats.budget import check_shape
from fourfold.formats.onnx.convert.window import as_pair, channels_first, channels_last, read_window
from fourfold.formats.onnx.operation import Operation
from fourfold.formats.onnx.rule import converts
from fourfold.formats.refusal import Unconvertible
from fourfold.op.pooling import PoolAxes
from fourfold.op.window import Padding, Pool2d
from fourfold.ops.average_pool import AveragePool
from fourfold.ops.lp_pool import LpPool
from fourfold.ops.pad import Pad
from fourfold.ops.scatter_elements import ScatterElements
from fourfold.types import DType, Shape


def _pool_of(op: Operation) -> PoolAxes:
    """What the attributes of a pool say, with the size of its result."""
    x, filter = op.input_type(0), op.list_attribute("kernel_shape")
    if filter is None or x.rank < 3:
        raise ValueError(f"it is no pool of {x}")
    window = read_window(op, x.shape[2:], filter)
    before, after = (tuple(pair[side] for pair in window.padding) for side in (0, 1))
    sizes = []
    for axis, reach in enumerate(window.reach):
        room = x.shape[2 + axis] + before[axis] + after[axis] - reach
        step = window.stride[axis]
        count = (-(-room // step) if op.attribute("ceil_mode", 0) else room // step) + 1
        # A last window that begins in the padding behind the image does not count.
        begins = (count - 1) * step
        sizes.append(count - (count > 1 and begins >= x.shape[2 + axis] + before[axis]))
    return PoolAxes(window.filter, window.stride, window.dilation, before, after, tuple(sizes))


def _pooled(op: Operation, name: str, attributes: PoolAxes) -> str:
    """A pool between transposes."""
    rank = op.input_type(0).rank
    image = op.transposed(op.input(0), (0, *range(2, rank), 1), "image")
    value = op.add(name, image, attributes=attributes, part="pool")
    return op.transposed(value, (0, rank - 1, *range(1, rank - 1)), "planes")


@converts("AveragePool", "MaxPool")
def pool(op: Operation) -> None:
    """max_pool2d or average_pool2d between transposes; max_pool or average_pool for what these
    cannot say.
    """
    attributes, averages = _pool_of(op), op.record.op == "AveragePool"
    counts = averages and bool(op.attribute("count_include_pad", 0))
    x = op.input_type(0)
    plain = _plain(attributes, x.shape[2:], counts)
    if plain is not None and x.dtype.is_float:
        name = "average_pool2d" if averages else "max_pool2d"
        value = op.add(name, channels_last(op, op.input(0)), attributes=plain, part="pool")
        op.give_value(channels_first(op, value, x.rank))
    elif averages:
        wide = AveragePool(**vars(attributes), counts_padding=counts)
        op.give_value(_pooled(op, "average_pool", wide))
    else:
        op.give_value(_pooled(op, "max_pool", attributes))
    if op.output(1) is not None:
        _give_places(op, attributes)


def _plain(attributes: PoolAxes, sizes: Shape, counts: bool) -> Pool2d | None:
    """The same as a pool of an image or a row; None where it is none of a plain kind.

    What a last window reaches beyond the end is padding, too.
    """
    around, axes = [(0, 0)] * (2 - attributes.axes), range(attributes.axes)
    for axis in axes:
        reach = (attributes.size[axis] - 1) * attributes.stride[axis] + attributes.filter[axis]
        before = attributes.before[axis]
        around.append((before, max(reach - sizes[axis] - before, 0)))
    padded = any(map(any, around)) or any(attributes.after)
    apart = any(gap > 1 for gap in attributes.dilation)
    if attributes.axes > 2 or apart or (counts and padded):
        return None
    filter, stride = as_pair(attributes.filter), as_pair(attributes.stride)
    if any(max(pads) >= taps for pads, taps in zip(around, filter, strict=True)):
        return None
    return Pool2d(filter, stride, Padding(*around[0], *around[1]))


@converts("LpPool")
def lp_pool(op: Operation) -> None:
    """lp_pool between transposes."""
    order = op.attribute("p", 2)
    if order < 1:
        raise ValueError(f"there is no norm of order {order}")
    attributes = LpPool(**vars(_pool_of(op)), p=order)
    op.give_value(_pooled(op, "lp_pool", attributes))


@converts("GlobalLpPool")
def global_lp_pool(op: Operation) -> None:
    """lp_pool with a window as large as the image."""
    inner = op.input_type(0).shape[2:]
    ones, zeros = (1,) * len(inner), (0,) * len(inner)
    attributes = LpPool(inner, ones, ones, zeros, zeros, ones, p=op.attribute("p", 2))
    op.give_value(_pooled(op, "lp_pool", attributes))


def _give_places(op: Operation, attributes: PoolAxes) -> None:
    """The second output of MaxPool: the number of each largest element in the whole tensor."""
    x = op.input_type(0)
    planes, area = x.shape[0] * x.shape[1], math.prod(x.shape[2:])
    found = _pooled(op, "max_pool_index", attributes)
    if op.attribute("storage_order", 0):
        found = _by_columns(op, found, x.shape[2:])
    starts = np.arange(planes, dtype=np.int32).reshape(*x.shape[:2], *(1,) * (x.rank - 2)) * area
    found = op.add("add", found, op.add_constant(starts.astype(np.int32), "starts"), part="places")
    op.give_value(op.converted(found, DType.I64, "whole"), 1)


def _by_columns(op: Operation, value: str, sizes: Shape) -> str:
    """Numbers of pixels that count down columns first, of those that count along rows."""
    if len(sizes) != 2:
        raise Unconvertible("it counts columns first in other than images")
    height, width = (op.add_constant(np.array(size, np.int32), f"size{size}") for size in sizes)
    row = op.add("div", value, width, part="row")
    column = op.add("remainder", value, width, part="column")
    return op.add("add", op.add("mul", column, height, part="above"), row, part="number")


@converts("MaxUnpool")
def max_unpool(op: Operation) -> None:
    """scatter_elements into zeros, and a pad where more is asked for."""
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
        wanted = op.integers(2, "output_shape")
        if len(wanted) != x.rank or any(a < b for a, b in zip(wanted, shape, strict=True)):
            raise ValueError(f"{list(shape)} cannot become {list(wanted)}")
        after = tuple(a - b for a, b in zip(wanted, shape, strict=True))
        value = op.add("pad", value, attributes=Pad((0,) * x.rank, after), part="padded")
    op.give_value(value)

"""Pooling of images, rows and volumes, and max unpooling."""

from __future__ import annotations

import math

import numpy as np

from fourfold.formats.axes import give_channels_first, to_channels_first, to_channels_last
from fourfold.formats.budget import check_shape
from fourfold.formats.onnx.convert.window import read_window
from fourfold.formats.onnx.operation import Operation, converts
from fourfold.formats.rule_table import Unconvertible
from fourfold.formats.windows import add_pool, count_windows
from fourfold.ops.base.window import PoolAxes
from fourfold.ops.lp_pool import LpPool
from fourfold.ops.pad import Pad
from fourfold.ops.scatter_elements import ScatterElements
from fourfold.types import DType, Shape


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

"""Expansions along axes: resizing, cumulative products and Fourier transforms."""

from __future__ import annotations

import numpy as np

from fourfold.formats.tflite.write_graph.expand import Expansion, expands
from fourfold.ops.cumprod import Cumprod
from fourfold.ops.gather import Gather
from fourfold.ops.pad import Pad
from fourfold.ops.resize import ResizeAxes
from fourfold.ops.rfft2d import Rfft2d
from fourfold.ops.slice import Slice
from fourfold.ops.spectrum import Spectrum
from fourfold.ops.transpose import Transpose
from fourfold.processing.resampling import TapTable, tap_table
from fourfold.types import DType, Shape


@expands("resize")
def resize(to: Expansion) -> bool:
    """one axis after the other; elements outside a crop are selected at the end."""
    a, value = to.attributes(ResizeAxes), to.input(0)
    x = to.type(value)
    if x.dtype is not DType.F32 and a.sampling.mode != "nearest":
        return False
    outside = np.zeros((1,) * x.rank, np.bool_)
    for one in a.axes:
        table = tap_table(a.sampling, one, x.shape[one.axis])
        along = [1] * x.rank
        along[one.axis] = -1
        outside = outside | table.outside.reshape(along)
        if a.sampling.mode == "nearest":
            indices = to.constant(table.indices[:, 0].astype(np.int32), "indices")
            value = to.add("gather", value, indices, attributes=Gather(one.axis))
        else:
            value = _interpolate(to, value, one.axis, table)
    if not outside.any():
        return to.give("identity", value)
    mask, number = to.constant(outside, "outside"), to.number(a.extrapolation, value)
    return to.give("select", mask, number, value)


def _interpolate(to: Expansion, value: str, axis: int, table: TapTable) -> str:
    """Interpolate along an axis with a matrix product."""
    x = to.type(value)
    matrix = np.zeros((len(table.indices), x.shape[axis]), np.float32)
    for row, (sources, shares) in enumerate(zip(table.indices, table.weights, strict=True)):
        np.add.at(matrix[row], sources, shares)
    weights = to.constant(matrix, "shares")
    order = [*(other for other in range(x.rank) if other != axis), axis]
    back = tuple(order.index(other) for other in range(x.rank))
    last = axis == x.rank - 1
    turned = value if last else to.add("transpose", value, attributes=Transpose(tuple(order)))
    product = to.add("fully_connected", turned, weights, None)
    return product if last else to.add("transpose", product, attributes=Transpose(back))


@expands("cumprod")
def cumprod(to: Expansion) -> bool:
    """a product with the value shifted by 1, 2, 4, ... elements."""
    a, value = to.attributes(Cumprod), to.input(0)
    size = to.type(value).shape[a.axis]
    value = _reversed(to, value, a.axis) if a.reverse else value
    value = _moved(to, value, a.axis, 1) if a.exclusive else value
    step = 1
    while step < size:
        value = to.add("mul", value, _moved(to, value, a.axis, step))
        step *= 2
    value = _reversed(to, value, a.axis) if a.reverse else value
    return to.give("identity", value)


def _along(axis: int, rank: int, number: int, others: int = 0) -> Shape:
    return tuple(number if one == axis else others for one in range(rank))


def _moved(to: Expansion, value: str, axis: int, step: int) -> str:
    """Return the value shifted by `step` elements, filled with ones."""
    x = to.type(value)
    sizes = tuple(size - step if one == axis else size for one, size in enumerate(x.shape))
    zeros = (0,) * x.rank
    if sizes[axis] > 0:
        value = to.add("slice", value, attributes=Slice(zeros, sizes, (1,) * x.rank))
        pad = Pad(_along(axis, x.rank, step), zeros, 1.0)
        return to.add("pad", value, attributes=pad)
    return to.broadcast(to.number(1, value), x.shape)


def _reversed(to: Expansion, value: str, axis: int) -> str:
    x = to.type(value)
    begin = _along(axis, x.rank, x.shape[axis] - 1)
    box = Slice(begin, x.shape, _along(axis, x.rank, -1, others=1))
    return to.add("slice", value, attributes=box)


# Length limit of a matrix transform, whose matrix has half its square of elements.
_MAX_LENGTH = 4096


def is_power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


@expands("spectrum")
def spectrum(to: Expansion) -> bool:
    """rfft2d of one row and complex_abs, or the norm of two products."""
    size, result = to.attributes(Spectrum).size, to.types[to.node.outputs[0]]
    value = _fitted(to, to.input(0), size)
    if is_power_of_two(size) and size > 1:
        shape = to.type(value).shape
        row = to.reshaped(value, (*shape[:-1], 1, size))
        turned = to.add("rfft2d", row, attributes=Rfft2d((1, size)))
        return to.give_reshaped(to.add("complex_abs", turned), result.shape)
    if size > _MAX_LENGTH:
        return False
    angles = 2 * np.pi * np.outer(np.arange(size // 2 + 1), np.arange(size)) / size
    parts = [
        to.add(
            "square",
            to.add("fully_connected", value, to.constant(one.astype(np.float32), "waves"), None),
        )
        for one in (np.cos(angles), np.sin(angles))
    ]
    return to.give("sqrt", to.add("add", *parts))


def _fitted(to: Expansion, value: str, size: int) -> str:
    """Return the value cropped or zero-padded to `size` channels."""
    x = to.type(value)
    zeros, missing = (0,) * (x.rank - 1), size - x.channels
    if missing > 0:
        return to.add("pad", value, attributes=Pad((*zeros, 0), (*zeros, missing)))
    if missing < 0:
        box = Slice((*zeros, 0), (*x.shape[:-1], size), (1,) * x.rank)
        return to.add("slice", value, attributes=box)
    return value

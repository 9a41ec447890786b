"""Expansions of pools over any number of axes: 2-D pools if possible, else one op per tap."""

from __future__ import annotations

import math
from functools import reduce

import numpy as np

from fourfold.formats.tflite.write_graph.expand import Expansion, expands
from fourfold.ops.arg_max import ArgMax
from fourfold.ops.average_pool import AveragePool
from fourfold.ops.average_pool import reference as average_reference
from fourfold.ops.base.window import Padding, Pool2d, PoolAxes, pool_window, tap_views, windows
from fourfold.ops.concat import Concat
from fourfold.ops.gather import Gather
from fourfold.ops.lp_pool import LpPool
from fourfold.ops.pad import Pad
from fourfold.ops.slice import Slice
from fourfold.types import DType, Shape

_MAX_TAPS = 128
_MIN_FLOAT = float(np.finfo(np.float32).min)


def _covered(to: Expansion, a: PoolAxes, value: str, fill: float) -> str:
    """Pad and crop a value so that its windows cover it exactly."""
    x = to.type(value)
    after, spans = [], []
    for axis in range(a.axes):
        span = (a.size[axis] - 1) * a.stride[axis] + (a.filter[axis] - 1) * a.dilation[axis] + 1
        after.append(max(0, span - a.before[axis] - x.shape[1 + axis]))
        spans.append(span)
    if any(a.before) or any(after):
        pad = Pad((0, *a.before, 0), (0, *after, 0), fill)
        value = to.add("pad", value, attributes=pad)
    return _cut(to, value, (0,) * a.axes, tuple(spans), (1,) * a.axes)


def _cut(to: Expansion, value: str, begin: Shape, size: Shape, strides: Shape) -> str:
    """Slice the inner axes."""
    x = to.type(value)
    if x.shape[1:-1] == size:
        return value
    box = Slice((0, *begin, 0), (x.shape[0], *size, x.channels), (1, *strides, 1))
    return to.add("slice", value, attributes=box)


def _taps(to: Expansion, a: PoolAxes, value: str, fill: float) -> list[str] | None:
    """Return, for each filter tap, its elements in all windows; None if there are too many taps."""
    if math.prod(a.filter) > _MAX_TAPS:
        return None
    covered = _covered(to, a, value, fill)
    taps = []
    for tap in np.ndindex(a.filter):
        begin = tuple(number * gap for number, gap in zip(tap, a.dilation, strict=True))
        taps.append(_cut(to, covered, begin, a.size, a.stride))
    return taps


def _is_image(a: PoolAxes) -> bool:
    return a.axes <= 2 and set(a.dilation) == {1}


def _image_pool(to: Expansion, op: str, a: PoolAxes, covered: str) -> str:
    """Add a 2-D pool; a value with one inner axis becomes an image with one row."""
    x = to.type(covered)
    rows = x.shape if a.axes == 2 else (x.shape[0], 1, *x.shape[1:])
    filter, stride = (one if a.axes == 2 else (1, *one) for one in (a.filter, a.stride))
    pool = Pool2d((filter[0], filter[1]), (stride[0], stride[1]))
    pooled = to.add(op, to.reshaped(covered, rows), attributes=pool)
    return to.reshaped(pooled, (x.shape[0], *a.size, x.channels))


def _around(a: PoolAxes, x: Shape) -> Padding | None:
    """Return the padding of an equivalent 2-D pool; None if there is none."""
    if a.axes != 2 or set(a.dilation) != {1}:
        return None
    pads = []
    for axis in (0, 1):
        span = (a.size[axis] - 1) * a.stride[axis] + a.filter[axis]
        after = span - a.before[axis] - x[1 + axis]
        if not 0 <= a.before[axis] < a.filter[axis] or not 0 <= after < a.filter[axis]:
            return None
        pads += [a.before[axis], after]
    return Padding(*pads)


def _plain(to: Expansion, op: str, a: PoolAxes) -> bool:
    """Write an equivalent 2-D pool with padding that does not count, if there is one."""
    around = _around(a, to.type(to.input(0)).shape)
    if around is None:
        return False
    pool = Pool2d((a.filter[0], a.filter[1]), (a.stride[0], a.stride[1]), around)
    return to.give(op, to.input(0), attributes=pool)


@expands("max_pool")
def max_pool(to: Expansion) -> bool:
    """max_pool2d, or the maximum over all taps."""
    a, x = to.attributes(PoolAxes), to.input(0)
    real = to.type(x).dtype is DType.F32
    if not real and not to.type(x).dtype.is_integer:
        return False
    if real and _plain(to, "max_pool2d", a):
        return True
    fill = _MIN_FLOAT if real else float(np.iinfo(to.type(x).dtype.numpy).min)
    if real and _is_image(a):
        return to.give("identity", _image_pool(to, "max_pool2d", a, _covered(to, a, x, fill)))
    taps = _taps(to, a, x, fill)
    if taps is None:
        return False
    return to.give("identity", reduce(lambda one, other: to.add("maximum", one, other), taps))


def _mean(to: Expansion, a: PoolAxes, value: str) -> str | None:
    """Return the mean over all taps, with zeros outside the image."""
    if _is_image(a):
        return _image_pool(to, "average_pool2d", a, _covered(to, a, value, 0.0))
    taps = _taps(to, a, value, 0.0)
    if taps is None:
        return None
    total = reduce(lambda one, other: to.add("add", one, other), taps)
    return to.add("mul", total, to.number(1 / len(taps), total))


@expands("average_pool")
def average_pool(to: Expansion) -> bool:
    """average_pool2d, or the mean over all taps, scaled for windows with fewer elements."""
    a, x = to.attributes(AveragePool), to.type(to.input(0))
    if x.dtype is not DType.F32:
        return False
    if not a.counts_padding and _plain(to, "average_pool2d", a):
        return True
    mean = _mean(to, a, to.input(0))
    if mean is None:
        return False
    ones = np.ones((1, *x.shape[1:-1], 1), np.float32)
    # For an input of ones, the mean over all taps is the fraction that counts; normalize by it.
    part = np.asarray(sum(tap_views(a, ones, 0.0))) / math.prod(a.filter)
    divisor = np.where(part > 0, part, 1.0)
    factor = np.where(part > 0, average_reference(a, ones) / divisor, 1.0)
    return to.give("mul", mean, to.constant(factor.astype(np.float32), "factor"))


@expands("lp_pool")
def lp_pool(to: Expansion) -> bool:
    """the mean of powers times their number, and its root."""
    a, x = to.attributes(LpPool), to.input(0)
    powers = to.add("power", to.add("absolute", x), to.number(a.p, x))
    mean = _mean(to, a, powers)
    if mean is None:
        return False
    total = to.add("mul", mean, to.number(math.prod(a.filter), mean))
    return to.give("power", total, to.number(1 / a.p, total))


def _best_tap(to: Expansion, a: PoolAxes, fill: float) -> str | None:
    """Return, for each window, the index of its largest tap (the first if several are equal)."""
    taps = _taps(to, a, to.input(0), fill)
    if taps is None:
        return None
    shape = to.type(taps[0]).shape
    columns = [to.reshaped(tap, (*shape, 1)) for tap in taps]
    stacked = to.add("concat", *columns, attributes=Concat(len(shape)))
    return to.add("arg_max", stacked, attributes=ArgMax(len(shape)))


@expands("max_pool2d_index")
def max_pool2d_index(to: Expansion) -> bool:
    """arg_max over all taps."""
    pool, x = to.attributes(Pool2d), to.type(to.input(0))
    size = windows(np.zeros((1, *x.shape[1:3], 1)), pool_window(pool)).shape[1:3]
    pads = pool.padding
    axes = PoolAxes(
        pool.filter, pool.stride, (1, 1), (pads.top, pads.left), (pads.bottom, pads.right), size
    )
    best = _best_tap(to, axes, _MIN_FLOAT)
    return best is not None and to.give_cast(best, DType.F32)


@expands("max_pool_index")
def max_pool_index(to: Expansion) -> bool:
    """arg_max over all taps, and the position of each tap in its image."""
    a, x = to.attributes(PoolAxes), to.type(to.input(0))
    real = x.dtype is DType.F32
    # Padding must be lower than any value inside.
    unsigned = x.dtype.value.startswith("u") and any(a.before + a.after)
    if unsigned or not (real or x.dtype.is_integer):
        return False
    best = _best_tap(to, a, _MIN_FLOAT if real else float(np.iinfo(x.dtype.numpy).min))
    if best is None:
        return False
    rows = [math.prod(x.shape[2 + axis : -1]) for axis in range(a.axes)]
    taps = sum(
        np.arange(count).reshape(-1, *[1] * (a.axes - 1 - axis)) * a.dilation[axis] * rows[axis]
        for axis, count in enumerate(a.filter)
    )
    starts = sum(
        ((np.arange(count) * a.stride[axis] - a.before[axis]) * rows[axis]).reshape(
            -1, *[1] * (a.axes - 1 - axis)
        )
        for axis, count in enumerate(a.size)
    )
    table = to.constant(np.asarray(taps).reshape(-1).astype(np.int32), "taps")
    first = to.constant(np.asarray(starts).reshape(1, *a.size, 1).astype(np.int32), "starts")
    return to.give("add", to.add("gather", table, best, attributes=Gather()), first)

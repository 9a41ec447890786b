"""Pooling: with a fixed window, global, or adaptive to an output size."""

from __future__ import annotations

import numpy as np

from fourfold.formats.channels_first import check_window
from fourfold.formats.paddle.convert.window import give_image, image_of, read_padding
from fourfold.formats.paddle.operation import Operation
from fourfold.formats.paddle.rule import converts
from fourfold.formats.pools import add_pool
from fourfold.formats.refusal import Unconvertible
from fourfold.op.pooling import PoolAxes
from fourfold.op.rules import Reduce
from fourfold.op.window import Pair
from fourfold.ops.concat import Concat
from fourfold.ops.slice import Slice
from fourfold.ops.transpose import Transpose
from fourfold.types import DType, TensorType

MAX_SLICES = 64  # windows of different lengths that are sliced one by one


@converts("pool2d")
def pool2d(op: Operation) -> None:
    """max_pool2d or average_pool2d; global ones are reduce_max or mean."""
    image, kind = image_of(op, op.input("X")), op.text("pooling_type", "max")
    if kind not in ("max", "avg"):
        raise Unconvertible(f"pooling with {kind} is not supported")
    shape, wanted = op.type_of(image).shape, op.sizes("ksize", "KSize")
    if op.flag("global_pooling"):
        wanted = (1, 1)
    if len(wanted) != 2:
        raise ValueError(f"its window {wanted} is not a height and a width")
    filter = (wanted[0], wanted[1])
    check_window(*filter)
    if op.flag("adaptive") or op.flag("global_pooling"):
        if kind == "max" and filter != (1, 1):
            raise Unconvertible("adaptive max pooling is only supported in max_pool2d_with_index")
        give_image(op, _adapted(op, image, filter, kind == "avg"))
        return
    pool = _pool(op, (shape[1], shape[2]), filter)
    counts = not op.flag("exclusive", True)
    give_image(op, add_pool(op, image, pool, kind == "avg", counts))


@converts("max_pool2d_with_index")
def max_pool2d_with_index(op: Operation) -> None:
    """max_pool2d; the indices are not computed."""
    image, filter = image_of(op, op.input("X")), op.pair("ksize")
    check_window(*filter)
    if op.flag("adaptive") or op.flag("global_pooling"):
        filter = (1, 1) if op.flag("global_pooling") else filter
        give_image(op, _adapted(op, image, filter, average=False))
        return
    shape = op.type_of(image).shape
    pool = _pool(op, (shape[1], shape[2]), filter)
    give_image(op, add_pool(op, image, pool, average=False))


def _pool(op: Operation, image: Pair, filter: Pair) -> PoolAxes:
    stride = op.pair("strides", 1)
    check_window(*stride)
    padding = read_padding(op, image, filter, stride)
    before, after = (padding.top, padding.left), (padding.bottom, padding.right)
    spaces = [image[i] + before[i] + after[i] - filter[i] for i in (0, 1)]
    up = op.flag("ceil_mode")  # the last window may start anywhere then
    size = tuple(
        (-(-space // step) if up else space // step) + 1
        for space, step in zip(spaces, stride, strict=True)
    )
    return PoolAxes(filter, stride, (1, 1), before, after, size)


def _adapted(op: Operation, image: str, size: Pair, average: bool) -> str:
    """Add an adaptive pool that divides an image into `size` rows and columns."""
    shape = op.type_of(image).shape
    if size == (1, 1):
        spatial = Reduce((1, 2), keep_dims=True)
        return op.add("mean" if average else "reduce_max", image, attributes=spatial, part="pool")
    if not (shape[1] % size[0] or shape[2] % size[1]):
        filter = (shape[1] // size[0], shape[2] // size[1])
        shares = PoolAxes(filter, filter, (1, 1), (0, 0), (0, 0), size)
        return add_pool(op, image, shares, average)
    for axis in (1, 2):
        share = _mean_along if average else _max_along
        image = share(op, image, axis, size[axis - 1])
    return image


def _bounds(size: int, count: int) -> list[tuple[int, int]]:
    """Return start and end of each window; neighbors may overlap."""
    return [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def _mean_along(op: Operation, image: str, axis: int, count: int) -> str:
    """Average windows of different lengths with a matrix product."""
    size = op.type_of(image).shape[axis]
    op.reserve(TensorType(DType.F32, (count, size)))
    matrix = np.zeros((count, size), np.float32)
    for row, (first, end) in enumerate(_bounds(size, count)):
        matrix[row, first:end] = 1.0 / (end - first)
    order = tuple(3 if i == axis else axis if i == 3 else i for i in range(4))
    last = op.add("transpose", image, attributes=Transpose(order), part=f"turned{axis}")
    weights = op.add_constant(matrix, f"shares{axis}")
    means = op.add("fully_connected", last, weights, None, part=f"means{axis}")
    return op.add("transpose", means, attributes=Transpose(order), part=f"mean{axis}")


def _max_along(op: Operation, image: str, axis: int, count: int) -> str:
    shape = op.type_of(image).shape
    if count > MAX_SLICES:
        raise Unconvertible(f"{count} windows of different lengths are too many")
    parts = []
    for number, (first, end) in enumerate(_bounds(shape[axis], count)):
        begin = tuple(first if i == axis else 0 for i in range(4))
        size = tuple(end - first if i == axis else length for i, length in enumerate(shape))
        cut = Slice(begin, size, (1,) * 4)
        window = op.add("slice", image, attributes=cut, part=f"cut{axis}_{number}")
        one = Reduce((axis,), keep_dims=True)
        parts.append(op.add("reduce_max", window, attributes=one, part=f"max{axis}_{number}"))
    return op.add("concat", *parts, attributes=Concat(axis), part=f"max{axis}")

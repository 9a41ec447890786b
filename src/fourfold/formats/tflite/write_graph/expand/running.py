"""Expansion of cumulative products, in log2(size) steps."""

from __future__ import annotations

from fourfold.formats.tflite.write_graph.expansion import Expansion, expands
from fourfold.ops.cumprod import Cumprod
from fourfold.ops.pad import Pad
from fourfold.ops.slice import Slice
from fourfold.types import Shape


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
    return to.spread(to.number(1, value), x.shape)


def _reversed(to: Expansion, value: str, axis: int) -> str:
    x = to.type(value)
    begin = _along(axis, x.rank, x.shape[axis] - 1)
    box = Slice(begin, x.shape, _along(axis, x.rank, -1, others=1))
    return to.add("slice", value, attributes=box)

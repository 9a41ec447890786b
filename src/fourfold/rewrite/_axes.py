"""Values under another order of axes: what an order does to constants and attributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fourfold.kernels.running import RunningTotal
from fourfold.op.axis_orders import Order, full_rank, inverse, joined_axes, permuted
from fourfold.op.rules import Reduce
from fourfold.ops.arg_max import ArgMax
from fourfold.ops.concat import Concat
from fourfold.ops.mirror_pad import MirrorPad
from fourfold.ops.pad import Pad
from fourfold.ops.slice import Slice
from fourfold.ops.tile import Tile
from fourfold.types import Shape

_LAST_AXIS = frozenset({"l2_normalize", "local_response", "log_softmax", "softmax"})


def moved_constant(array: np.ndarray, order: Order) -> np.ndarray:
    """A constant for a reader whose result was given another order; ones in front go."""
    turned = array.reshape(full_rank(array.shape, len(order))).transpose(order)
    shape = turned.shape
    while shape and shape[0] == 1:
        shape = shape[1:]
    return np.ascontiguousarray(turned).reshape(shape)


def moved_attributes(op: str, attributes: object, order: Order) -> object | None:
    """The attributes of an op for an input before its transpose, whose result then needs the same
    transpose; None where there are none.
    """
    back = inverse(order)
    if isinstance(attributes, Reduce):
        axes = tuple(sorted(order[axis] for axis in attributes.axes))
        return Reduce(axes, keep_dims=True) if attributes.keep_dims else None
    if isinstance(attributes, ArgMax) and not attributes.keep_dims:
        return None
    if isinstance(attributes, ArgMax | Concat | RunningTotal):
        return replace(attributes, axis=order[attributes.axis])
    if isinstance(attributes, Slice):
        sides = (attributes.begin, attributes.size, attributes.strides)
        return Slice(*(permuted(side, back) for side in sides))
    if isinstance(attributes, Pad | MirrorPad):
        before, after = permuted(attributes.before, back), permuted(attributes.after, back)
        return replace(attributes, before=before, after=after)
    if isinstance(attributes, Tile):
        return Tile(permuted(attributes.multiples, back))
    return attributes if op in _LAST_AXIS and order[-1] == len(order) - 1 else None


def gathered_order(order: Order, axis: int, added: int) -> Order:
    """The order of what is gathered along an axis, in place of which `added` axes come."""
    place = order[axis]

    def labels(axes: Sequence[int], gone: int) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        for one in axes:
            new = [("index", number) for number in range(added)]
            found += new if one == gone else [("axis", one)]
        return found

    physical = labels(range(len(order)), place)
    return tuple(physical.index(label) for label in labels(order, place))


def grouped_order(shape: Shape, result: Shape, order: Order) -> Order | None:
    """The order of a transpose that brings together what a reshape joins and leaves the rest where
    it is; None where no reshape could go before a transpose at all.

    The axes that a reshape joins go to where the last of them lies: channels stay behind.
    """
    groups = joined_axes(shape, result)
    if groups is None:
        return None
    joined = [sources for sources, _ in groups]
    joined += [[axis] for axis, size in enumerate(shape) if size == 1]
    joined.sort(key=lambda axes: max(order[axis] for axis in axes))
    return tuple(order[axis] for axes in joined for axis in axes)

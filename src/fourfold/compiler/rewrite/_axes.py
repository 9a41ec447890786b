"""Transformations of constants and attributes under a permutation of axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fourfold.ops.arg_max import ArgMax
from fourfold.ops.base.axis_orders import Order, group_equal_axes, inverse, pad_rank, permuted
from fourfold.ops.base.rules import Reduce
from fourfold.ops.concat import Concat
from fourfold.ops.kernels.running import RunningTotal
from fourfold.ops.mirror_pad import MirrorPad
from fourfold.ops.pad import Pad
from fourfold.ops.slice import Slice
from fourfold.ops.tile import Tile
from fourfold.types import Shape

_LAST_AXIS = frozenset({"l2_normalize", "local_response", "log_softmax", "softmax"})


def permute_constant(array: np.ndarray, order: Order) -> np.ndarray:
    """Permute a constant for a permuted result; leading axes of size 1 are dropped."""
    turned = array.reshape(pad_rank(array.shape, len(order))).transpose(order)
    shape = turned.shape
    while shape and shape[0] == 1:
        shape = shape[1:]
    return np.ascontiguousarray(turned).reshape(shape)


def permute_attributes(op: str, attributes: object, order: Order) -> object | None:
    """Return the attributes of an op that is moved before a transpose of its input.

    Its result then needs the same transpose. None if the op cannot be moved.
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
    """Return the axis order of a gather's result; `added` axes replace the gathered axis."""
    source_axis = order[axis]

    def labels(axes: Sequence[int], gone: int) -> list[tuple[str, int]]:
        labelled: list[tuple[str, int]] = []
        for one in axes:
            new = [("index", number) for number in range(added)]
            labelled += new if one == gone else [("axis", one)]
        return labelled

    physical = labels(range(len(order)), source_axis)
    return tuple(physical.index(label) for label in labels(order, source_axis))


def grouped_order(shape: Shape, result: Shape, order: Order) -> Order | None:
    """Return the order of a transpose after which a reshape only joins neighbouring axes.

    Axes that the reshape joins move to the position of the last of them, so that channels stay
    last. None if no reshape could move before a transpose.
    """
    groups = group_equal_axes(shape, result)
    if groups is None:
        return None
    joined = [sources for sources, _ in groups]
    joined += [[axis] for axis, size in enumerate(shape) if size == 1]
    joined.sort(key=lambda axes: max(order[axis] for axis in axes))
    return tuple(order[axis] for axes in joined for axis in axes)

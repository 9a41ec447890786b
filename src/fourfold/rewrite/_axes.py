"""Values under another order of axes: what an order does to shapes, attributes and reshapes.

An order is that of a transpose: axis k of the value is axis order[k] of what it was made from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fourfold.op.rules import Reduce
from fourfold.ops.arg_max import ArgMax
from fourfold.ops.concat import Concat
from fourfold.ops.cumsum import Cumsum
from fourfold.ops.mirror_pad import MirrorPad
from fourfold.ops.pad import Pad
from fourfold.ops.slice import Slice
from fourfold.ops.tile import Tile
from fourfold.types import Shape

Order = tuple[int, ...]

_LAST_AXIS = frozenset({"l2_normalize", "local_response", "log_softmax", "softmax"})


def inverse(order: Order) -> Order:
    return tuple(order.index(axis) for axis in range(len(order)))


def composed(first: Order, second: Order) -> Order:
    """The order of a transpose of a transpose."""
    return tuple(first[axis] for axis in second)


def permuted(sizes: Sequence[int], order: Order) -> Shape:
    return tuple(sizes[axis] for axis in order)


def keeps_order(order: Order, source: Shape) -> bool:
    """Whether a transpose of this shape moves axes of size one alone, and so no element."""
    moved = [axis for axis in order if source[axis] != 1]
    return moved == sorted(moved)


def full_rank(shape: Shape, rank: int) -> Shape:
    """A shape as one of so many axes, as broadcasting sees it."""
    return (1,) * (rank - len(shape)) + shape


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
    if isinstance(attributes, ArgMax | Concat | Cumsum):
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


def reshaped_order(shape: Shape, result: Shape, order: Order) -> tuple[Shape, Order] | None:
    """A reshape before a transpose instead of behind it: the shape that it gives, and the order of
    the transpose behind it. None where it joins axes that do not lie side by side.

    `shape` is what the reshape reads now, `order` that of the transpose before it.
    """
    groups = _groups(shape, result)
    if groups is None:
        return None
    places = {axis: order[axis] for axis, size in enumerate(shape) if size != 1}
    ranks = {place: number for number, place in enumerate(sorted(places.values()))}
    keyed = []
    for sources, targets in groups:
        at = [ranks[places[axis]] for axis in sources]
        if at != list(range(at[0], at[0] + len(at))):
            return None
        keyed.append((at[0], targets))
    axes = [axis for _, targets in sorted(keyed) for axis in targets]
    axes = [axis for axis in range(len(result)) if axis not in axes] + axes
    return permuted(result, tuple(axes)), inverse(tuple(axes))


def grouped_order(shape: Shape, result: Shape, order: Order) -> Order | None:
    """The order of a transpose that brings together what a reshape joins and leaves the rest where
    it is; None where no reshape could go before a transpose at all.

    The axes that a reshape joins go to where the last of them lies: channels stay behind.
    """
    groups = _groups(shape, result)
    if groups is None:
        return None
    joined = [sources for sources, _ in groups]
    joined += [[axis] for axis, size in enumerate(shape) if size == 1]
    joined.sort(key=lambda axes: max(order[axis] for axis in axes))
    return tuple(order[axis] for axes in joined for axis in axes)


def _groups(shape: Shape, result: Shape) -> list[tuple[list[int], list[int]]] | None:
    """Axes of two shapes that hold the same elements, as few together as possible. Axes of size one
    go with those of the result that follow them, the first ones with none.
    """
    sources = [axis for axis, size in enumerate(shape) if size != 1]
    targets = [axis for axis, size in enumerate(result) if size != 1]
    if 0 in shape or 0 in result or not sources or not targets:
        return None
    groups: list[tuple[list[int], list[int]]] = []
    while sources:
        left, right = [sources.pop(0)], [targets.pop(0)]
        while math.prod(shape[axis] for axis in left) != math.prod(result[axis] for axis in right):
            ahead = math.prod(shape[axis] for axis in left)
            if ahead < math.prod(result[axis] for axis in right):
                left.append(sources.pop(0))
            else:
                right.append(targets.pop(0))
        groups.append((left, right))
    _place_ones(result, groups)
    return groups


def _place_ones(result: Shape, groups: list[tuple[list[int], list[int]]]) -> None:
    first = groups[0][1][0]
    for axis, size in enumerate(result):
        if size != 1 or axis < first:
            continue
        following = [targets for _, targets in groups if targets[-1] > axis]
        target = following[0] if following else groups[-1][1]
        target.append(axis)
        target.sort()

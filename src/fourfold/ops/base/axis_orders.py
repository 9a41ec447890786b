"""Axis orders of transposes: shapes, inverses, and moving a reshape before a transpose.

An order is the permutation of a transpose: axis k of the result is axis order[k] of the input.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fourfold.types import Shape

Order = tuple[int, ...]


def inverse(order: Order) -> Order:
    return tuple(order.index(axis) for axis in range(len(order)))


def compose_orders(first: Order, second: Order) -> Order:
    """Return the order of two transposes, `first` applied before `second`."""
    return tuple(first[axis] for axis in second)


def permuted(sizes: Sequence[int], order: Order) -> Shape:
    return tuple(sizes[axis] for axis in order)


def keeps_order(order: Order, source: Shape) -> bool:
    """Return True if a transpose of this shape moves only axes of size one, and no elements."""
    moved = [axis for axis in order if source[axis] != 1]
    return moved == sorted(moved)


def pad_rank(shape: Shape, rank: int) -> Shape:
    """Prepend axes of size one until the shape has `rank` axes, as broadcasting does."""
    return (1,) * (rank - len(shape)) + shape


def move_reshape_before(shape: Shape, result: Shape, order: Order) -> tuple[Shape, Order] | None:
    """Move a reshape from after a transpose to before it.

    `shape` is the input of the reshape, `order` the order of the transpose before it. Returns the
    shape that the moved reshape produces and the order of the transpose that follows it, or None if
    the reshape joins axes that are not adjacent in the transpose's input.
    """
    groups = group_equal_axes(shape, result)
    if groups is None:
        return None
    source_axes = {axis: order[axis] for axis, size in enumerate(shape) if size != 1}
    ranks = {source_axis: number for number, source_axis in enumerate(sorted(source_axes.values()))}
    keyed = []
    for sources, targets in groups:
        positions = [ranks[source_axes[axis]] for axis in sources]
        if positions != list(range(positions[0], positions[0] + len(positions))):
            return None
        keyed.append((positions[0], targets))
    axes = [axis for _, targets in sorted(keyed) for axis in targets]
    axes = [axis for axis in range(len(result)) if axis not in axes] + axes
    return permuted(result, tuple(axes)), inverse(tuple(axes))


def group_equal_axes(shape: Shape, result: Shape) -> list[tuple[list[int], list[int]]] | None:
    """Group the axes of two shapes that hold the same elements, in groups as small as possible.

    Axes of size one of the result join the group that follows them. Leading ones join no group.
    Returns None if a shape is empty or has no axis larger than one.
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
    """Add the axes of size one of `result` to the groups."""
    first = groups[0][1][0]
    for axis, size in enumerate(result):
        if size != 1 or axis < first:
            continue
        following = [targets for _, targets in groups if targets[-1] > axis]
        target = following[0] if following else groups[-1][1]
        target.append(axis)
        target.sort()

"""Orders of axes: what a transpose does to shapes, and reshapes that go before one.

An order is that of a transpose: axis k of the value is axis order[k] of what it was made from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fourfold.types import Shape

Order = tuple[int, ...]


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


def reshaped_order(shape: Shape, result: Shape, order: Order) -> tuple[Shape, Order] | None:
    """A reshape before a transpose instead of behind it: the shape that it gives, and the order of
    the transpose behind it. None where it joins axes that do not lie side by side.

    `shape` is what the reshape reads now, `order` that of the transpose before it.
    """
    groups = joined_axes(shape, result)
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


def joined_axes(shape: Shape, result: Shape) -> list[tuple[list[int], list[int]]] | None:
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

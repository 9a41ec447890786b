"""Which rows of its inputs an op needs for some rows of its result, and how it makes these alone.

A picture is judged by a few rows at a time: what is computed of it then fits into caches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from fourfold.graph import Node
from fourfold.ops.base import registry
from fourfold.ops.base.window import Filter2d, Padding, Pool2d, Window, pool_window
from fourfold.ops.concat import Concat
from fourfold.types import Shape

ROW_AXIS = 1  # of [N,H,W,C]
POOLS = ("average_pool2d", "max_pool2d", "max_pool2d_index")
TOGETHER = 2**18  # elements of a result that are judged at once


class RowRange(NamedTuple):
    """From the first to the one before `end`."""

    first: int
    end: int

    def joined(self, other: RowRange) -> RowRange:
        return RowRange(min(self.first, other.first), max(self.end, other.end))

    def of(self, axis: int) -> tuple[slice, ...]:
        """What takes them out of an array that has them along an axis."""
        return (*(slice(None),) * axis, slice(self.first, self.end))


class NeededRows(NamedTuple):
    """A node that makes some rows only, and the rows of each input for it; None for all of one."""

    node: Node
    inputs: tuple[RowRange | None, ...]


def slabs(shape: Shape) -> Iterator[RowRange | None]:
    """The rows of a value that are judged together, in order; None where that is all of it."""
    if len(shape) != 4 or shape[ROW_AXIS] < 2 or math.prod(shape) <= TOGETHER:
        yield None
        return
    height = shape[ROW_AXIS]
    count = max(1, TOGETHER * height // math.prod(shape))
    for first in range(0, height, count):
        yield RowRange(first, min(first + count, height))


def row_axis(shape: Shape, result: Shape) -> int | None:
    """The axis of an input that goes with the rows of a result; None where it has none."""
    axis = len(shape) - len(result) + ROW_AXIS
    return axis if axis >= 0 and shape[axis] == result[ROW_AXIS] else None


def needed_rows(
    node: Node, shapes: Sequence[Shape | None], result: Shape, rows: RowRange
) -> NeededRows | None:
    """None where an op is not known to make rows one by one. `shapes` are those of its inputs."""
    attributes = node.attributes
    if node.tail or len(node.outputs) != 1 or len(result) != 4:
        return None
    window = _window(node, shapes)
    if window is not None and shapes[0] is not None:
        return _under_window(node, window, shapes[0][ROW_AXIS], rows)
    joins = isinstance(attributes, Concat) and attributes.axis not in (ROW_AXIS, ROW_AXIS - 4)
    if not joins and registry()[node.op].pointwise is None:
        return None
    return NeededRows(
        node,
        tuple(
            None if shape is None or row_axis(shape, result) is None else rows for shape in shapes
        ),
    )


def _window(node: Node, shapes: Sequence[Shape | None]) -> Window | None:
    attributes = node.attributes
    if isinstance(attributes, Pool2d) and node.op in POOLS:
        return pool_window(attributes)
    weights = shapes[1] if len(shapes) > 1 else None
    if weights is None or not isinstance(attributes, Filter2d):
        return None
    return attributes.window(weights)


def _under_window(node: Node, window: Window, height: int, rows: RowRange) -> NeededRows | None:
    """What lies under the windows of these rows; what is beyond the image stays padding."""
    stride, padding = window.stride[0], window.padding
    first = rows.first * stride - padding.top
    end = (rows.end - 1) * stride - padding.top + window.reach[0]
    left = Padding(max(-first, 0), max(end - height, 0), *padding.width)
    attributes = replace(node.attributes, padding=left)  # type: ignore[type-var]
    inside = RowRange(max(first, 0), min(end, height))
    if inside.first >= inside.end:  # all is padding
        return None
    others = (None,) * (len(node.inputs) - 1)
    return NeededRows(replace(node, attributes=attributes), (inside, *others))

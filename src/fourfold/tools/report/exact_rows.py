"""Evaluation by rows: the rows of its inputs that an op needs for some rows of its result.

Pictures are compared a few rows at a time, so that intermediate results fit into caches.
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
SLAB_ELEMENTS = 2**18  # elements of a result that are compared at a time


class RowRange(NamedTuple):
    """Rows from `first` up to, but not including, `end`."""

    first: int
    end: int

    def joined(self, other: RowRange) -> RowRange:
        return RowRange(min(self.first, other.first), max(self.end, other.end))

    def of(self, axis: int) -> tuple[slice, ...]:
        """Return the index that selects the rows along an axis of an array."""
        return (*(slice(None),) * axis, slice(self.first, self.end))


class NeededRows(NamedTuple):
    """A node that computes only some rows, and the rows of each input it needs; None: all rows."""

    node: Node
    inputs: tuple[RowRange | None, ...]


def slabs(shape: Shape) -> Iterator[RowRange | None]:
    """Yield the rows of a value to compare at a time, in order; None for the whole value."""
    if len(shape) != 4 or shape[ROW_AXIS] < 2 or math.prod(shape) <= SLAB_ELEMENTS:
        yield None
        return
    height = shape[ROW_AXIS]
    count = max(1, SLAB_ELEMENTS * height // math.prod(shape))
    for first in range(0, height, count):
        yield RowRange(first, min(first + count, height))


def row_axis(shape: Shape, result: Shape) -> int | None:
    """Return the axis of an input that corresponds to the rows of a result; None without one."""
    axis = len(shape) - len(result) + ROW_AXIS
    return axis if axis >= 0 and shape[axis] == result[ROW_AXIS] else None


def needed_rows(
    node: Node, shapes: Sequence[Shape | None], result: Shape, rows: RowRange
) -> NeededRows | None:
    """Return the node and input rows for some rows of the result; None if the op cannot compute
    rows separately. `shapes` are the shapes of the inputs.
    """
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
    """Return the input rows under the windows of these rows; padding covers the others."""
    stride, padding = window.stride[0], window.padding
    first = rows.first * stride - padding.top
    end = (rows.end - 1) * stride - padding.top + window.reach[0]
    left = Padding(max(-first, 0), max(end - height, 0), *padding.width)
    attributes = replace(node.attributes, padding=left)  # type: ignore[type-var]
    inside = RowRange(max(first, 0), min(end, height))
    if inside.first >= inside.end:  # only padding
        return None
    others = (None,) * (len(node.inputs) - 1)
    return NeededRows(replace(node, attributes=attributes), (inside, *others))

"""Operators that slice and split."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fourfold.formats.axes import axis_of
from fourfold.formats.rule_table import Unconvertible
from fourfold.formats.tflite.operation import Operation, converts
from fourfold.formats.tflite.options import SplitOptions, StridedSliceOptions
from fourfold.ops.reshape import Reshape
from fourfold.ops.slice import Slice
from fourfold.types import Shape


def _give_slice(op: Operation, value: str, box: Slice, output: int = 0) -> None:
    """Write a slice to an output; an empty one must be a constant."""
    if 0 in box.size and value in op.builder.constants:
        empty = np.empty(box.size, op.builder.constants[value].dtype)
        op.builder.constant(op.outputs[output], empty)
        return
    op.give("slice", value, attributes=box, output=output)


@converts("SLICE")
def slice_(op: Operation) -> None:
    """slice with constant bounds."""
    x, begin, size = op.input_type(0), op.integers(1, "begin"), op.integers(2, "size")
    if not len(begin) == len(size) == x.rank:
        raise ValueError(f"begin {begin} and size {size} do not fit {x}")
    if op.in_file(1) and op.in_file(2):
        size = _all_images(op, begin, size)
    op.change(2, size)
    remaining = [length - first for length, first in zip(x.shape, begin, strict=True)]
    sizes = tuple(
        available if count == -1 else count
        for count, available in zip(size, remaining, strict=True)
    )
    _give_slice(op, op.input(0), Slice(begin, sizes, (1,) * x.rank))


def _all_images(op: Operation, begin: Shape, size: Shape) -> Shape:
    """Return the sizes of a slice; one that took the whole batch of the file takes the caller's."""
    axis = op.batch_axis(0)
    if axis is None or begin[axis] != 0 or size[axis] != op.own_shape(0)[axis]:
        return size
    return (*size[:axis], -1, *size[axis + 1 :])


def _split(op: Operation, value: int, axis: int, sizes: Shape) -> None:
    x, start = op.input_type(value), 0
    if len(sizes) != len(op.outputs) or sum(sizes) != x.shape[axis] or min(sizes) < 0:
        raise ValueError(f"axis {axis} of {x} cannot be split into {list(sizes)}")
    for index, size in enumerate(sizes):
        begin = tuple(start if i == axis else 0 for i in range(x.rank))
        shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
        _give_slice(op, op.input(value), Slice(begin, shape, (1,) * x.rank), index)
        start += size


@converts("SPLIT")
def split(op: Operation) -> None:
    """one slice per output, all of one size."""
    x = op.input_type(1)
    axis = axis_of(op.integer(0, "axis"), x.rank)
    count = op.options(SplitOptions).num_splits
    if count != len(op.outputs) or x.shape[axis] % max(count, 1):
        raise ValueError(f"axis {axis} of {x} cannot be split into {count} equal parts")
    _split(op, 1, axis, (x.shape[axis] // count,) * count)


@converts("SPLIT_V")
def split_v(op: Operation) -> None:
    """one slice per output, of constant sizes."""
    x = op.input_type(0)
    axis = axis_of(op.integer(2, "axis"), x.rank)
    sizes = op.integers(1, "sizes")
    if sizes.count(-1) == 1:
        remaining = x.shape[axis] - sum(size for size in sizes if size != -1)
        sizes = tuple(remaining if size == -1 else size for size in sizes)
    _split(op, 0, axis, sizes)


@dataclass
class _Cut:
    """A strided slice, built axis by axis, and its result shape."""

    shape: Shape
    begin: list[int] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    strides: list[int] = field(default_factory=list)
    result: list[int] = field(default_factory=list)
    positions: dict[int, int] = field(default_factory=dict)  # positions of kept axes in the result

    @property
    def next(self) -> int:
        """Return the size of the next axis."""
        return self.shape[len(self.begin)]

    def keep(self, first: int, count: int, stride: int, shrink: bool = False) -> None:
        self.begin.append(first)
        self.size.append(count)
        self.strides.append(stride)
        if not shrink:
            self.positions[len(self.begin) - 1] = len(self.result)
            self.result.append(count)

    def is_whole(self, axis: int) -> bool:
        """Return True if an axis is unchanged."""
        one = (self.begin[axis], self.size[axis], self.strides[axis])
        return one == (0, self.shape[axis], 1) and axis in self.positions

    def widen(self, axis: int) -> None:
        """Keep all of an axis that has grown with the batch."""
        self.size[axis] = self.shape[axis]
        self.result[self.positions[axis]] = self.shape[axis]

    def skip(self, count: int) -> None:
        """Keep whole axes."""
        for _ in range(count):
            self.keep(0, self.next, 1)

    def index(self, at: int) -> None:
        """Keep one element and drop the axis."""
        position = at + self.next if at < 0 else at
        if not 0 <= position < self.next:
            raise ValueError(f"index {at} is out of range for an axis of {self.next}")
        self.keep(position, 1, 1, shrink=True)

    def span(self, first: int | None, last: int | None, stride: int) -> None:
        positions = range(*slice(first, last, stride).indices(self.next))
        self.keep(positions.start if positions else 0, len(positions), stride)


@converts("STRIDED_SLICE")
def strided_slice(op: Operation) -> None:
    """slice, then reshape if axes are added or dropped."""
    x = op.input_type(0)
    cut = _cut(op, x.shape)
    axis = op.batch_axis(0)
    if axis is not None and op.in_file(2) and _cut(op, op.own_shape(0)).is_whole(axis):
        cut.widen(axis)
        _change_end(op, axis)
    else:
        op.change(2, op.integers(2, "end"))
    box = Slice(tuple(cut.begin), tuple(cut.size), tuple(cut.strides))
    if tuple(cut.result) == box.size:
        _give_slice(op, op.input(0), box)
        return
    value = op.input(0)
    if box.size != x.shape:
        value = op.add("slice", value, attributes=box, part="slice")
    op.give("reshape", value, attributes=Reshape(tuple(cut.result)))


def _change_end(op: Operation, axis: int) -> None:
    """Set the end of a slice along the batch axis to the caller's batch."""
    options, end = op.options(StridedSliceOptions), list(op.integers(2, "end"))
    if options.ellipsis_mask or options.new_axis_mask or options.offset:
        raise Unconvertible("it adds axes, and the batch was changed")
    end[axis] = op.input_type(0).shape[axis]
    op.change(2, end)


def _cut(op: Operation, shape: Shape) -> _Cut:
    options = op.options(StridedSliceOptions)
    begin, end, strides = (op.integers(i, w) for i, w in ((1, "begin"), (2, "end"), (3, "strides")))
    if not len(begin) == len(end) == len(strides) or 0 in strides:
        raise ValueError(f"begin {begin}, end {end} and strides {strides} do not match")
    if options.offset:
        end = tuple(first + more for first, more in zip(begin, end, strict=True))
    cut = _Cut(shape)
    added = _added(options, len(begin))
    for i, (first, last, stride) in enumerate(zip(begin, end, strides, strict=True)):
        bit = 1 << i
        if options.ellipsis_mask & bit:
            cut.skip(len(shape) - (len(begin) - 1 - added))
        elif options.new_axis_mask & bit:
            cut.result.append(1)
        elif options.shrink_axis_mask & bit:
            cut.index(0 if options.begin_mask & bit else first)
        else:
            start = None if options.begin_mask & bit else first
            cut.span(start, None if options.end_mask & bit else last, stride)
    cut.skip(len(shape) - len(cut.begin))
    return cut


def _added(options: StridedSliceOptions, count: int) -> int:
    """Return the number of entries that add an axis; an ellipsis never does."""
    if options.ellipsis_mask & (options.ellipsis_mask - 1):
        raise ValueError("it has more than one ellipsis")
    added = options.new_axis_mask & ~options.ellipsis_mask & ((1 << count) - 1)
    return added.bit_count()

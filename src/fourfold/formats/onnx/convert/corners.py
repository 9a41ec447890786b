"""Operators that keep a triangle or the center of a tensor."""

from __future__ import annotations

import numpy as np

from fourfold.formats.axes import axis_of
from fourfold.formats.onnx.operation import Operation
from fourfold.formats.onnx.rule import converts
from fourfold.ops.pad import Pad
from fourfold.ops.slice import Slice
from fourfold.types import DType


@converts("Trilu")
def trilu(op: Operation) -> None:
    """select with a constant mask."""
    x = op.input_type(0)
    if x.rank < 2:
        raise ValueError(f"{x} is not a matrix")
    shift = 0 if op.optional(1) is None else op.integer(1, "k")
    shift = max(-(2**31), min(2**31, shift))
    rows, columns = x.shape[-2:]
    ahead = np.arange(columns)[None, :] - np.arange(rows)[:, None]
    kept = ahead >= shift if op.attribute("upper", 1) else ahead <= shift
    zero = op.add_constant(np.array(0, x.dtype.numpy), "zero")
    if x.dtype is DType.BOOL:
        op.give("logical_and", op.input(0), op.add_constant(kept, "kept"))
    else:
        op.give("select", op.add_constant(kept, "kept"), op.input(0), zero)


@converts("CenterCropPad")
def center_crop_pad(op: Operation) -> None:
    """slice, then pad; an odd difference puts the smaller part first."""
    x, sizes = op.input_type(0), op.integers(1, "shape")
    named = op.list_attribute("axes")
    axes = range(x.rank) if named is None else [axis_of(axis, x.rank) for axis in named]
    if len(sizes) != len(axes):
        raise ValueError(f"{list(sizes)} does not fit {x}")
    begin, kept, before, after = [0] * x.rank, [*x.shape], [0] * x.rank, [0] * x.rank
    for axis, size in zip(axes, sizes, strict=True):
        less, more = max(x.shape[axis] - size, 0), max(size - x.shape[axis], 0)
        begin[axis], kept[axis] = less // 2, x.shape[axis] - less
        before[axis], after[axis] = more // 2, more - more // 2
    value, ones = op.input(0), (1,) * x.rank
    box = Slice(tuple(begin), tuple(kept), ones)
    value = value if tuple(kept) == x.shape else op.add("slice", value, attributes=box, part="crop")
    op.give("pad", value, attributes=Pad(tuple(before), tuple(after)))

"""Operators that slice, concatenate, pad, gather and scatter."""

from __future__ import annotations

import numpy as np

from fourfold.formats.axes import axis_of
from fourfold.formats.onnx.operation import Operation, converts
from fourfold.ops.concat import Concat
from fourfold.ops.gather import Gather
from fourfold.ops.gather_elements import GatherElements
from fourfold.ops.gather_nd import GatherNd
from fourfold.ops.mirror_pad import MirrorPad
from fourfold.ops.pad import Pad
from fourfold.ops.reverse_sequence import ReverseSequence
from fourfold.ops.scatter_elements import ScatterElements
from fourfold.ops.scatter_update import ScatterUpdate
from fourfold.ops.slice import Slice
from fourfold.ops.tile import Tile
from fourfold.types import DType, Shape

_MAX_INDEX = 2**62  # exporters write larger numbers for 'to the end'


@converts("Slice")
def slice_(op: Operation) -> None:
    """slice with constant bounds."""
    x = op.input_type(0)
    starts, ends = op.list_or_input("starts", 1), op.list_or_input("ends", 2)
    if starts is None or ends is None:
        raise ValueError("it has no starts or no ends")
    axes = op.list_or_input("axes", 3)
    steps = None if op.optional(4) is None else op.integers(4, "steps")
    axes = tuple(range(len(starts))) if axes is None else axes
    steps = (1,) * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise ValueError("its starts, ends, axes and steps do not match")
    begin, size, strides = [0] * x.rank, list(x.shape), [1] * x.rank
    for first, last, axis, step in zip(starts, ends, axes, steps, strict=True):
        axis = axis_of(axis, x.rank)
        indices = _indices(first, last, step, x.shape[axis])
        begin[axis] = indices.start if indices else 0
        size[axis], strides[axis] = len(indices), step
    give_slice(op, op.input(0), Slice(tuple(begin), tuple(size), tuple(strides)))


def _indices(first: int, last: int, step: int, size: int) -> range:
    """Return indices as in Python slices; an end far below zero means 'down to the first'."""
    if step < 0:
        end = None if last < -size else last
        return range(*slice(first, end, step).indices(size))
    return range(*slice(first, min(last, _MAX_INDEX), step).indices(size))


def give_slice(op: Operation, value: str, box: Slice, output: int = 0) -> None:
    """Write a slice; a full slice is the value itself and an empty one a constant."""
    x = op.type_of(value)
    is_full = box.size == x.shape and all(step == 1 for step in box.strides)
    if 0 in box.size:
        op.give_constant(np.empty(box.size, x.dtype.numpy), output)
    elif is_full:
        op.give_value(value, output)
    else:
        op.give("slice", value, attributes=box, output=output)


@converts("Split")
def split(op: Operation) -> None:
    """one slice per output."""
    x, count = op.input_type(0), len(op.record.outputs)
    axis = axis_of(op.attribute("axis", 0), x.rank)
    sizes = op.list_or_input("split", 1)
    if sizes is None:
        parts = op.attribute("num_outputs", count)
        each = -(-x.shape[axis] // max(parts, 1))
        sizes = (*(each,) * (parts - 1), x.shape[axis] - each * (parts - 1))
    if len(sizes) != count or sum(sizes) != x.shape[axis] or min(sizes, default=0) < 0:
        raise ValueError(
            f"axis {axis} of {x} cannot be split into {list(sizes)} for {count} outputs"
        )
    start = 0
    for output, size in enumerate(sizes):
        begin = tuple(start if i == axis else 0 for i in range(x.rank))
        shape = tuple(size if i == axis else own for i, own in enumerate(x.shape))
        give_slice(op, op.input(0), Slice(begin, shape, (1,) * x.rank), output)
        start += size


@converts("Concat")
def concat(op: Operation) -> None:
    """concat."""
    values = op.all_inputs()
    axis = axis_of(op.attribute("axis", 1), op.input_type(0).rank)
    # An empty list of sizes may occur in computed shapes; it adds nothing.
    parts = [value for value in values if op.type_of(value).elements] or list(values[:1])
    if len(parts) == 1:
        op.give_value(parts[0])
    else:
        op.give("concat", *parts, attributes=Concat(axis))


@converts("Gather")
def gather(op: Operation) -> None:
    """gather."""
    x, indices = op.input_type(0), op.input(1)
    axis = axis_of(op.attribute("axis", 0), x.rank)
    known = op.known(indices)
    if known is None:
        op.give("gather", op.input(0), indices, attributes=Gather(axis, from_end=True))
    else:
        places = _from_start(op, known, x.shape[axis : axis + 1])
        op.give("gather", op.input(0), places, attributes=Gather(axis))


def _from_start(op: Operation, indices: np.ndarray, sizes: Shape) -> str:
    """Return constant indices counted from the start; negative ones count from the end."""
    if indices.dtype.kind not in "iu":
        raise ValueError(f"its indices are {indices.dtype}")
    limits = np.array(sizes)
    if ((indices < -limits) | (indices >= limits)).any():
        raise ValueError(f"its indices are out of range for axes of {list(sizes)}")
    places = np.where(indices < 0, indices + limits, indices).astype(np.int32)
    return op.add_constant(places.reshape(indices.shape), "places")


@converts("GatherND")
def gather_nd(op: Operation) -> None:
    """gather_nd; batch axes get indices of their own."""
    x, constants = op.input_type(0), op.known(op.input(1))
    batch = op.attribute("batch_dims", 0)
    if constants is None or batch:
        indices = _computed_indices(op, batch)
        op.give("gather_nd", op.input(0), indices, attributes=GatherNd(from_end=True))
        return
    depth = constants.shape[-1] if constants.ndim else 0
    if not 0 < depth <= x.rank:
        raise ValueError(f"{list(constants.shape)} indices cannot index {x}")
    places = _from_start(op, constants, x.shape[:depth])
    op.give("gather_nd", op.input(0), places, attributes=GatherNd())


def _computed_indices(op: Operation, batch: int) -> str:
    """Return indices that are computed at run time, after those of the batch."""
    x, indices = op.input_type(0), op.input_type(1)
    depth = indices.channels if indices.rank else 0
    if not 0 <= batch < indices.rank or not 0 < depth <= x.rank - batch:
        raise ValueError(f"{indices} cannot index {x}")
    if not batch:
        return op.input(1)
    own = np.indices(indices.shape[:-1])[:batch]
    rows = np.moveaxis(own, 0, -1).astype(indices.dtype.numpy)
    joined = Concat(indices.rank - 1)
    return op.add(
        "concat", op.add_constant(rows, "batch"), op.input(1), attributes=joined, part="all_places"
    )


@converts("Pad")
def pad(op: Operation) -> None:
    """pad or mirror_pad by constant amounts; negative amounts slice."""
    x, mode = op.input_type(0), op.text_attribute("mode", "constant")
    before, after = _amounts(op, x.shape)
    value = op.input(0)
    cut = tuple(max(-amount, 0) for amount in before), tuple(max(-amount, 0) for amount in after)
    if any(cut[0]) or any(cut[1]):
        sizes = zip(x.shape, *cut, strict=True)
        inner = tuple(size - first - last for size, first, last in sizes)
        box = Slice(cut[0], inner, (1,) * x.rank)
        value = op.add("slice", value, attributes=box, part="cut")
    sides = tuple(max(amount, 0) for amount in before), tuple(max(amount, 0) for amount in after)
    if mode == "constant" and op.optional(2) is not None and op.known(op.optional(2)) is None:
        _pad_by_run(op, value, sides)
    elif mode == "constant":
        fill = op.real_attribute("value", 0.0) if op.has("value") else op.number(2, "value")
        op.give("pad", value, attributes=Pad(*sides, fill or 0.0))
    elif mode == "reflect":
        op.give("mirror_pad", value, attributes=MirrorPad(*sides, reflect=True))
    elif mode in ("edge", "wrap"):
        _repeat(op, value, sides, "clip" if mode == "edge" else "wrap")
    else:
        raise ValueError(f"its mode '{mode}' is not supported")


def _pad_by_run(op: Operation, value: str, sides: tuple[Shape, Shape]) -> None:
    """Pad with a number that is computed at run time."""
    padded = op.add("pad", value, attributes=Pad(*sides), part="padded")
    op.reserve(op.type_of(padded).with_dtype(DType.BOOL))
    inside = np.zeros(op.type_of(padded).shape, np.bool_)
    sizes = zip(sides[0], op.type_of(value).shape, strict=True)
    inside[tuple(slice(before, before + size) for before, size in sizes)] = True
    number = op.reshaped(op.input(2), (), "number")
    op.give("select", op.add_constant(inside, "inside"), padded, number)


def _repeat(op: Operation, value: str, sides: tuple[Shape, Shape], mode: str) -> None:
    """Pad with the edges, or by wrapping around, with indices along each axis."""
    for axis, (before, after) in enumerate(zip(*sides, strict=True)):
        if before or after:
            size = op.type_of(value).shape[axis]
            steps = np.arange(-before, size + after)
            positions = np.clip(steps, 0, size - 1) if mode == "clip" else steps % size
            indices = op.add_constant(positions.astype(np.int32), f"places{axis}")
            value = op.add("gather", value, indices, attributes=Gather(axis), part=f"axis{axis}")
    op.give_value(value)


def _amounts(op: Operation, shape: Shape) -> tuple[Shape, Shape]:
    """Return the padding before and after each axis."""
    pads = op.list_or_input("pads", 1)
    named = None if op.optional(3) is None else op.integers(3, "axes")
    axes = range(len(shape)) if named is None else [axis_of(axis, len(shape)) for axis in named]
    if pads is None or len(pads) != 2 * len(axes):
        raise ValueError(f"paddings {pads} do not fit {list(shape)}")
    before, after = [0] * len(shape), [0] * len(shape)
    for index, axis in enumerate(axes):
        before[axis], after[axis] = pads[index], pads[index + len(axes)]
    return tuple(before), tuple(after)


@converts("GatherElements")
def gather_elements(op: Operation) -> None:
    """gather_elements."""
    axis = axis_of(op.attribute("axis", 0), op.input_type(0).rank)
    op.give("gather_elements", op.input(0), op.input(1), attributes=GatherElements(axis))


@converts("ScatterElements", "Scatter")
def scatter_elements(op: Operation) -> None:
    """scatter_elements."""
    axis = axis_of(op.attribute("axis", 0), op.input_type(0).rank)
    attributes = ScatterElements(axis, op.text_attribute("reduction", "none"))
    op.give("scatter_elements", op.input(0), op.input(1), op.input(2), attributes=attributes)


@converts("ScatterND")
def scatter_nd(op: Operation) -> None:
    """scatter_update."""
    attributes = ScatterUpdate(op.text_attribute("reduction", "none"))
    op.give("scatter_update", op.input(0), op.input(1), op.input(2), attributes=attributes)


@converts("TensorScatter")
def tensor_scatter(op: Operation) -> None:
    """scatter_elements, from an offset per batch entry on."""
    target, update = op.input_type(0), op.input_type(1)
    axis = axis_of(op.attribute("axis", -2), target.rank)
    if axis == 0:
        raise ValueError("its axis is the batch axis")
    steps = [1] * update.rank
    steps[axis] = update.shape[axis]
    indices = op.add_constant(np.arange(update.shape[axis], dtype=np.int64).reshape(steps), "steps")
    if op.optional(2) is not None:
        starts = op.reshaped(op.input(2), (update.shape[0], *(1,) * (update.rank - 1)), "starts")
        starts = op.converted(starts, DType.I64, "whole_starts")
        indices = op.add("add", indices, starts, part="places")
        if op.text_attribute("mode", "linear") == "circular":
            size = op.add_constant(np.array(target.shape[axis], np.int64), "size")
            indices = op.add("floor_mod", indices, size, part="around")
    sizes = op.type_of(indices).shape
    multiples = tuple(a // b for a, b in zip(update.shape, sizes, strict=True))
    indices = op.add("tile", indices, attributes=Tile(multiples), part="all_places")
    attributes = ScatterElements(axis)
    op.give("scatter_elements", op.input(0), indices, op.input(1), attributes=attributes)


@converts("ReverseSequence")
def reverse_sequence(op: Operation) -> None:
    """reverse_sequence; if the last axis takes part, a new axis is appended."""
    x = op.input_type(0)
    time, batch = (
        axis_of(op.attribute(name, default), x.rank)
        for name, default in (("time_axis", 0), ("batch_axis", 1))
    )
    value, attributes = op.input(0), ReverseSequence(time, batch)
    if max(time, batch) < x.rank - 1:
        op.give("reverse_sequence", value, op.input(1), attributes=attributes)
        return
    value = op.reshaped(value, (*x.shape, 1), "column")
    value = op.add("reverse_sequence", value, op.input(1), attributes=attributes, part="reversed")
    op.give_value(op.reshaped(value, x.shape, "row"))


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

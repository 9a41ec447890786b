"""Operators that move elements without changing them."""

from __future__ import annotations

import math

import numpy as np

from fourfold.formats.axes import axis_of, check_window
from fourfold.formats.batch import reshape_batch
from fourfold.formats.paddle.operation import Operation, converts
from fourfold.formats.rule_table import Unconvertible
from fourfold.ops.concat import Concat
from fourfold.ops.gather import Gather
from fourfold.ops.gather_nd import GatherNd
from fourfold.ops.mirror_pad import MirrorPad
from fourfold.ops.pad import Pad
from fourfold.ops.reshape import Reshape
from fourfold.ops.slice import Slice
from fourfold.ops.tile import Tile
from fourfold.ops.transpose import Transpose
from fourfold.types import Shape


def _give_reshape(op: Operation, x: str, shape: Shape) -> None:
    op.give("reshape", x, attributes=Reshape(shape))


@converts("reshape", "reshape2")
def reshape(op: Operation) -> None:
    """reshape, with sizes of 0 and -1 filled in."""
    x = op.input("X")
    requested = op.sizes("shape", "ShapeTensor", "Shape")
    own = op.own_shape(x)
    if any(size == 0 and axis >= len(own) for axis, size in enumerate(requested)):
        raise ValueError(f"{requested} copies sizes that {op.type_of(x)} does not have")
    target = tuple(own[axis] if size == 0 else size for axis, size in enumerate(requested))
    result = reshape_batch(op.type_of(x), own, target, op.builder.batch_factor)
    _give_reshape(op, x, result.shape)


@converts("transpose", "transpose2")
def transpose(op: Operation) -> None:
    """transpose."""
    op.give("transpose", op.input("X"), attributes=Transpose(op.integers("axis")))


@converts("flatten_contiguous_range")
def flatten_range(op: Operation) -> None:
    """reshape."""
    x = op.input("X")
    shape = op.type_of(x).shape
    rank = len(shape)
    first = axis_of(op.integer("start_axis", 1), max(rank, 1))
    last = axis_of(op.integer("stop_axis", -1), max(rank, 1))
    if last < first:
        raise ValueError(f"axis {last} does not follow axis {first}")
    _give_reshape(op, x, (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))


@converts("flatten", "flatten2")
def flatten(op: Operation) -> None:
    """reshape to rows."""
    x, axis = op.input("X"), op.integer("axis", 1)
    shape = op.type_of(x).shape
    if not 0 <= axis <= len(shape):
        raise ValueError(f"axis {axis} is not one of {len(shape)} axes")
    _give_reshape(op, x, (math.prod(shape[:axis]), math.prod(shape[axis:])))


@converts("squeeze", "squeeze2")
def squeeze(op: Operation) -> None:
    """reshape that removes axes of size one."""
    x = op.input("X")
    shape = op.type_of(x).shape
    axes = {axis_of(axis, len(shape)) for axis in op.sizes("axes", "AxesTensor", "AxesTensorList")}
    dropped = {axis for axis, size in enumerate(shape) if size == 1 and (not axes or axis in axes)}
    _give_reshape(op, x, tuple(size for axis, size in enumerate(shape) if axis not in dropped))


@converts("unsqueeze", "unsqueeze2")
def unsqueeze(op: Operation) -> None:
    """reshape that inserts axes of size one."""
    x = op.input("X")
    shape = list(op.type_of(x).shape)
    for axis in op.sizes("axes", "AxesTensor", "AxesTensorList"):
        shape.insert(axis_of(axis, len(shape) + 1), 1)
    _give_reshape(op, x, tuple(shape))


@converts("concat")
def concat(op: Operation) -> None:
    """concat."""
    values = op.all("X")
    axis = op.size("axis", "AxisTensor", 0)
    op.give("concat", *values, attributes=Concat(axis_of(axis, op.input_type("X").rank)))


@converts("stack", gives=("Y",))
def stack(op: Operation) -> None:
    """reshapes and concat."""
    values, x = op.all("X"), op.input_type("X")
    axis = axis_of(op.integer("axis", 0), x.rank + 1)
    one = Reshape((*x.shape[:axis], 1, *x.shape[axis:]))
    parts = [
        op.add("reshape", value, attributes=one, part=f"part{i}") for i, value in enumerate(values)
    ]
    op.give("concat", *parts, attributes=Concat(axis))


@converts("split")
def split(op: Operation) -> None:
    """one slice per output."""
    x = op.input("X")
    kind, count = op.type_of(x), len(op.outputs)
    axis = axis_of(op.size("axis", "AxisTensor", 0), kind.rank)
    sizes = list(op.sizes("sections", "SectionsTensorList", "SectionsTensor"))
    if not sizes:
        sizes = [kind.shape[axis] // max(count, 1)] * count
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = kind.shape[axis] - sum(size for size in sizes if size != -1)
    if len(sizes) != count or sum(sizes) != kind.shape[axis]:
        raise ValueError(f"axis {axis} of {kind} cannot be split into {sizes}")
    first = 0
    for index, size in enumerate(sizes):
        box = _box(kind.shape, axis, first, size)
        op.give("slice", x, attributes=box, output=index)
        first += size


@converts("unbind", "unstack", gives=("Out", "Y"))
def unbind(op: Operation) -> None:
    """a slice and a reshape per output."""
    x = op.input("X")
    kind = op.type_of(x)
    axis = axis_of(op.integer("axis", 0), kind.rank)
    if kind.shape[axis] != len(op.outputs):
        raise ValueError(f"axis {axis} of {kind} cannot be split into {len(op.outputs)} parts")
    for index in range(len(op.outputs)):
        one = _box(kind.shape, axis, index, 1)
        part = op.add("slice", x, attributes=one, part=f"part{index}")
        shape = Reshape((*kind.shape[:axis], *kind.shape[axis + 1 :]))
        op.give("reshape", part, attributes=shape, output=index)


def _box(shape: Shape, axis: int, first: int, count: int) -> Slice:
    begin = tuple(first if i == axis else 0 for i in range(len(shape)))
    size = tuple(count if i == axis else length for i, length in enumerate(shape))
    return Slice(begin, size, (1,) * len(shape))


@converts("slice")
def slice_value(op: Operation) -> None:
    """slice, and reshape if axes are removed."""
    axes = op.integers("axes")
    starts = op.sizes("starts", "StartsTensor", "StartsTensorList")
    stops = op.sizes("ends", "EndsTensor", "EndsTensorList")
    _give_slice(op, axes, starts, stops, (1,) * len(axes))


@converts("strided_slice")
def strided_slice(op: Operation) -> None:
    """slice with steps, and reshape if axes are removed."""
    axes = op.integers("axes")
    starts = op.sizes("starts", "StartsTensor", "StartsTensorList")
    stops = op.sizes("ends", "EndsTensor", "EndsTensorList")
    strides = op.sizes("strides", "StridesTensor", "StridesTensorList")
    _give_slice(op, axes, starts, stops, strides)


def _give_slice(op: Operation, axes: Shape, starts: Shape, ends: Shape, strides: Shape) -> None:
    x = op.input("Input", "X")
    shape = op.type_of(x).shape
    if not len(axes) == len(starts) == len(ends) == len(strides):
        raise ValueError(f"{len(axes)} axes have {len(starts)} starts and {len(ends)} ends")
    begin, size, steps = [0] * len(shape), list(shape), [1] * len(shape)
    for axis, start, end, step in zip(axes, starts, ends, strides, strict=True):
        axis = axis_of(axis, len(shape))
        if step == 0:
            raise ValueError("a stride is zero")
        taken = range(shape[axis])[slice(start, end, step)]
        begin[axis], size[axis], steps[axis] = taken.start, len(taken), step
    if 0 in size:
        raise Unconvertible("its result is empty")
    attributes = Slice(tuple(begin), tuple(size), tuple(steps))
    dropped = {axis_of(axis, len(shape)) for axis in op.integers("decrease_axis")}
    if not dropped:
        op.give("slice", x, attributes=attributes)
        return
    part = op.add("slice", x, attributes=attributes, part="cut")
    _give_reshape(op, part, tuple(n for axis, n in enumerate(size) if axis not in dropped))


@converts("expand_v2", "expand_as_v2")
def expand(op: Operation) -> None:
    """tile along axes of size one."""
    x = op.input("X")
    shape = op.type_of(x).shape
    target = list(op.sizes("shape", "Shape", "expand_shapes_tensor"))
    if op.record.type == "expand_as_v2":
        target = list(op.integers("target_shape"))
        target = list(op.input_type("Y").shape) if op.all("Y") else target
    if len(target) < len(shape):
        raise ValueError(f"{op.type_of(x)} cannot be expanded to {target}")
    old = (*[1] * (len(target) - len(shape)), *shape)
    new = [own if size == -1 else size for size, own in zip(target, old, strict=True)]
    if any(own not in (1, size) for size, own in zip(new, old, strict=True)) or 0 in new:
        raise ValueError(f"{op.type_of(x)} cannot be expanded to {target}")
    _give_tile(op, x, old, tuple(size // own for size, own in zip(new, old, strict=True)))


@converts("tile")
def tile(op: Operation) -> None:
    """tile."""
    x = op.input("X")
    shape, times = (
        op.type_of(x).shape,
        op.sizes("repeat_times", "RepeatTimes", "repeat_times_tensor"),
    )
    rank = max(len(shape), len(times))
    times = (*[1] * (rank - len(times)), *times)
    _give_tile(op, x, (*[1] * (rank - len(shape)), *shape), times)


def _give_tile(op: Operation, x: str, shape: Shape, times: Shape) -> None:
    check_window(*(*times, 1))
    if shape != op.type_of(x).shape:
        x = op.add("reshape", x, attributes=Reshape(shape), part="wide")
    if set(times) <= {1}:
        op.give("identity", x)
    else:
        op.give("tile", x, attributes=Tile(times))


@converts("gather")
def gather(op: Operation) -> None:
    """gather."""
    axis = op.size("axis", "Axis", 0)
    attributes = Gather(axis_of(axis, op.input_type("X").rank))
    op.give("gather", op.input("X"), op.input("Index"), attributes=attributes)


@converts("index_select")
def index_select(op: Operation) -> None:
    """gather."""
    attributes = Gather(axis_of(op.integer("dim", 0), op.input_type("X").rank))
    op.give("gather", op.input("X"), op.input("Index"), attributes=attributes)


@converts("flip")
def flip(op: Operation) -> None:
    """slice with negative steps."""
    shape = op.input_type("X").shape
    axes = {axis_of(axis, len(shape)) for axis in op.integers("axis")}
    begin = tuple(size - 1 if axis in axes else 0 for axis, size in enumerate(shape))
    steps = tuple(-1 if axis in axes else 1 for axis in range(len(shape)))
    op.give("slice", op.input("X"), attributes=Slice(begin, shape, steps))


@converts("gather_nd")
def gather_nd(op: Operation) -> None:
    """gather_nd."""
    op.give("gather_nd", op.input("X"), op.input("Index"), attributes=GatherNd(from_end=True))


@converts("lookup_table_v2")
def lookup_table(op: Operation) -> None:
    """gather of rows."""
    if op.integer("padding_idx", -1) != -1:
        raise Unconvertible("a padding row (padding_idx) is not supported")
    op.give("gather", op.input("W"), op.input("Ids"), attributes=Gather())


@converts("shape", "shape64")
def shape(op: Operation) -> None:
    """a constant."""
    wide = np.int64 if op.record.type == "shape64" else np.int32
    op.give_constant(np.array(op.input_type("Input", "X").shape, wide))


@converts("pad3d", "pad2d", "pad")
def pad(op: Operation) -> None:
    """pad with a constant, or mirror_pad."""
    x = op.input("X")
    rank, numbers = op.type_of(x).rank, op.sizes("paddings", "Paddings")
    before, after = [0] * rank, [0] * rank
    if op.record.type == "pad":
        pairs = {axis: numbers[2 * axis : 2 * axis + 2] for axis in range(rank)}
    else:
        pairs = _image_pads(op, rank, numbers)
    for axis, pair in pairs.items():
        if len(pair) != 2:
            raise ValueError(f"its paddings {numbers} do not fit {op.type_of(x)}")
        before[axis], after[axis] = pair
    check_window(*(number + 1 for number in (*before, *after, 0)))
    mode = op.text("mode", "constant")
    if mode == "constant":
        value = op.number("value", op.number("pad_value", 0.0))
        op.give("pad", x, attributes=Pad(tuple(before), tuple(after), value))
    elif mode == "reflect":
        op.give("mirror_pad", x, attributes=MirrorPad(tuple(before), tuple(after), reflect=True))
    else:
        raise Unconvertible(f"padding mode {mode} is not supported")


def _image_pads(op: Operation, rank: int, numbers: Shape) -> dict[int, Shape]:
    """Return padding pairs per spatial axis.

    pad2d lists the first axis first, pad3d the last one.
    """
    spatial = rank - 2
    if len(numbers) != 2 * spatial:
        raise ValueError(f"{len(numbers)} paddings do not fit {rank} axes")
    first = 1 if op.text("data_format", "NCHW").endswith("C") else 2
    pairs = [numbers[2 * i : 2 * i + 2] for i in range(spatial)]
    axes = range(first, first + spatial)
    return dict(zip(axes, pairs if op.record.type == "pad2d" else pairs[::-1], strict=True))

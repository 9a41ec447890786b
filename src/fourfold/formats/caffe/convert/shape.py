"""Layers that move elements, and layers without effect at inference."""

from __future__ import annotations

import math

from fourfold.formats.axes import check_window, give_along, give_channels_first
from fourfold.formats.batch import reshape_batch
from fourfold.formats.caffe.operation import Operation, converts
from fourfold.formats.rule_table import Unconvertible
from fourfold.ops.arg_max import ArgMax
from fourfold.ops.base.rules import Reduce, Resize
from fourfold.ops.cast import Cast
from fourfold.ops.concat import Concat
from fourfold.ops.reshape import Reshape
from fourfold.ops.slice import Slice
from fourfold.ops.softmax import Softmax
from fourfold.ops.tile import Tile
from fourfold.ops.transpose import Transpose
from fourfold.types import DType, Shape


@converts("Dropout", "Split")
def identity(op: Operation) -> None:
    """identity."""
    for index in range(len(op.outputs)):
        op.give("identity", op.input(), output=index)


@converts("Silence")
def silence(op: Operation) -> None:
    """nothing; its input is not an output."""
    op.input()


@converts("Concat")
def concat(op: Operation) -> None:
    """concat."""
    settings = op.settings("concat_param")
    default = settings.integer("concat_dim", 1)
    axis = op.axis(settings.integer("axis", default))
    op.give("concat", *op.all_inputs(), attributes=Concat(axis))


@converts("Slice")
def slice_blob(op: Operation) -> None:
    """one slice per output."""
    settings, x = op.settings("slice_param"), op.input_type()
    axis = op.axis(settings.integer("axis", settings.integer("slice_dim", 1)))
    points, count = settings.integers("slice_point"), len(op.outputs)
    if not points:
        if not count or x.shape[axis] % count:
            raise ValueError(f"axis {axis} of {x} cannot be split into {count} equal parts")
        points = tuple(i * (x.shape[axis] // count) for i in range(1, count))
    stops = (*points, x.shape[axis])
    if len(stops) != count:
        raise ValueError(f"it has {count} outputs and {len(points)} slice points")
    first = 0
    for index, end in enumerate(stops):
        _cut(op, axis, first, end - first, index)
        first = end


def _cut(op: Operation, axis: int, first: int, count: int, output: int) -> None:
    x = op.input_type()
    begin = tuple(first if i == axis else 0 for i in range(x.rank))
    size = tuple(count if i == axis else length for i, length in enumerate(x.shape))
    op.give("slice", op.input(), attributes=Slice(begin, size, (1,) * x.rank), output=output)


@converts("Crop")
def crop(op: Operation) -> None:
    """slice to the size of the second input."""
    settings, x, like = op.settings("crop_param"), op.input_type(), op.input_type(1)
    if x.rank != like.rank:
        raise ValueError(f"{x} cannot be cropped to {like}")
    axis, offsets = op.axis(settings.integer("axis", 2)), settings.integers("offset")
    cut = x.rank - axis
    offsets = offsets * cut if len(offsets) == 1 else offsets or (0,) * cut
    if len(offsets) != cut:
        raise ValueError(f"{len(offsets)} offsets do not fit {cut} axes")
    begin, size = (*[0] * axis, *offsets), (*x.shape[:axis], *like.shape[axis:])
    op.give("slice", op.input(), attributes=Slice(begin, size, (1,) * x.rank))


@converts("Flatten")
def flatten(op: Operation) -> None:
    """reshape."""
    settings, shape = op.settings("flatten_param"), op.input_type().shape
    first, last = op.axis(settings.integer("axis", 1)), op.axis(settings.integer("end_axis", -1))
    if last < first:
        raise ValueError(f"axis {last} does not follow axis {first}")
    middle = math.prod(shape[first : last + 1])
    op.give("reshape", op.input(), attributes=Reshape((*shape[:first], middle, *shape[last + 1 :])))


@converts("Reshape")
def reshape(op: Operation) -> None:
    """reshape, with sizes of 0 and -1 filled in."""
    settings, x = op.settings("reshape_param"), op.input_type()
    sizes = settings.record("shape").integers("dim")
    first, count = settings.integer("axis", 0), settings.integer("num_axes", -1)
    first = first + x.rank + 1 if first < 0 else first
    last = x.rank if count == -1 else first + count
    if not 0 <= first <= last <= x.rank:
        raise ValueError(f"axes {first} to {last} are not those of {x}")
    own = op.own_shape(0)
    middle = [_kept(own, first + i) if size == 0 else size for i, size in enumerate(sizes)]
    target = (*own[:first], *middle, *own[last:])
    result = reshape_batch(x, own, target, op.builder.batch_factor)
    op.give("reshape", op.input(), attributes=Reshape(result.shape))


def _kept(shape: Shape, axis: int) -> int:
    if axis >= len(shape):
        raise ValueError(f"it has no axis {axis} to copy the size from")
    return shape[axis]


@converts("Permute")
def permute(op: Operation) -> None:
    """transpose; axes that are not listed keep their order."""
    order, rank = op.settings("permute_param").integers("order"), op.input_type().rank
    order = (*order, *(axis for axis in range(rank) if axis not in order))
    op.give("transpose", op.input(), attributes=Transpose(order))


@converts("Tile")
def tile(op: Operation) -> None:
    """tile along one axis."""
    settings = op.settings("tile_param")
    axis, count = op.axis(settings.integer("axis", 1)), settings.integer("tiles")
    check_window(count)
    multiples = tuple(count if i == axis else 1 for i in range(op.input_type().rank))
    op.give("tile", op.input(), attributes=Tile(multiples))


@converts("ShuffleChannel")
def shuffle_channel(op: Operation) -> None:
    """interleaves the channels of all groups: reshape, transpose, reshape."""
    x, groups = op.input_type(), op.settings("shuffle_channel_param").integer("group", 1)
    if x.rank != 4 or groups < 1 or x.shape[1] % groups:
        raise ValueError(f"{groups} groups do not divide the channels of {x}")
    batch, channels, height, width = x.shape
    apart = Reshape((batch, groups, channels // groups, height, width))
    split = op.add("reshape", op.input(), attributes=apart, part="groups")
    turned = op.add("transpose", split, attributes=Transpose((0, 2, 1, 3, 4)), part="turned")
    op.give("reshape", turned, attributes=Reshape(x.shape))


@converts("Softmax")
def softmax(op: Operation) -> None:
    """softmax; other axes than the last are transposed."""
    axis = op.axis(op.settings("softmax_param").integer("axis", 1))
    give_along(op, "softmax", op.input(), axis, Softmax())


@converts("ArgMax")
def arg_max(op: Operation) -> None:
    """arg_max of the largest element, as float."""
    settings, x = op.settings("argmax_param"), op.input_type()
    if settings.integer("top_k", 1) != 1 or settings.flag("out_max_val"):
        raise Unconvertible("only the index of the largest element is supported")
    if settings.has("axis"):
        best = ArgMax(op.axis(settings.integer("axis")), keep_dims=True)
        index = op.add("arg_max", op.input(), attributes=best, part="index")
        op.give("cast", index, attributes=Cast(DType.F32))
        return
    rows = Reshape((x.shape[0], math.prod(x.shape[1:])))
    flat = op.add("reshape", op.input(), attributes=rows, part="rows")
    index = op.add("arg_max", flat, attributes=ArgMax(1), part="index")
    floats = op.add("cast", index, attributes=Cast(DType.F32), part="float")
    op.give("reshape", floats, attributes=Reshape((x.shape[0], 1, 1)))


@converts("Reduction")
def reduction(op: Operation) -> None:
    """sum or mean over all axes from one on."""
    settings, x = op.settings("reduction_param"), op.input()
    kind = settings.text("operation", "SUM")
    before = {"SUM": None, "MEAN": None, "ASUM": "absolute", "SUMSQ": "square"}
    if kind not in before:
        raise Unconvertible(f"its operation {kind} is not supported")
    first = before[kind]
    value = x if first is None else op.add(first, x, part="terms")
    axes = Reduce(tuple(range(op.axis(settings.integer("axis", 0)), op.input_type().rank)), False)
    total = op.add("mean" if kind == "MEAN" else "sum", value, attributes=axes, part="total")
    op.give("mul", total, op.scalar(settings.number("coeff", 1.0), x, "factor"))


@converts("Upsample")
def upsample(op: Operation) -> None:
    """resize_nearest by an integer factor."""
    if len(op.inputs) != 1:
        raise Unconvertible("unpooling with indices is not supported")
    settings, image = op.settings("upsample_param"), op.image()
    factor = settings.integer("scale", 2)
    check_window(factor)
    height, width = (size * factor for size in op.type_of(image).shape[1:3])
    size = (settings.integer("upsample_h", height), settings.integer("upsample_w", width))
    y = op.add("resize_nearest", image, attributes=Resize(size), part="resized")
    give_channels_first(op, y)


@converts("Interp")
def interpolate(op: Operation) -> None:
    """resize_bilinear with aligned corners."""
    settings, image = op.settings("interp_param"), op.image()
    if settings.integer("pad_beg") or settings.integer("pad_end"):
        raise Unconvertible("cropping before resizing is not supported")
    height, width = op.type_of(image).shape[1:3]
    shrink, zoom = settings.integer("shrink_factor", 1), settings.integer("zoom_factor", 1)
    check_window(shrink, zoom)
    sizes = [(size - 1) // shrink + 1 for size in (height, width)]
    sizes = [size + (size - 1) * (zoom - 1) for size in sizes]
    if len(op.inputs) > 1:
        sizes = list(op.input_type(1).shape[2:4])
    size = (settings.integer("height", sizes[0]), settings.integer("width", sizes[1]))
    attributes = Resize(size, align_corners=True)
    give_channels_first(op, op.add("resize_bilinear", image, attributes=attributes, part="resized"))

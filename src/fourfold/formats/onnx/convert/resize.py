"""Operators that resize and sample images, and that move pixels to channels and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fourfold.formats.axes import (
    axis_of,
    give_channels_first,
    inverse_order,
    last_order,
    to_channels_last,
    with_line,
    without_line,
)
from fourfold.formats.onnx.operation import Operation, converts
from fourfold.ops.base.rules import Resize
from fourfold.ops.batch_matmul import BatchMatmul
from fourfold.ops.grid_sample import GridSample
from fourfold.ops.kernels.move import Block
from fourfold.ops.reshape import Reshape
from fourfold.ops.resize import ResizeAxes
from fourfold.ops.resize_bilinear import neighbours
from fourfold.ops.resize_nearest import nearest
from fourfold.ops.roi_align import RoiAlign
from fourfold.ops.transpose import Transpose
from fourfold.processing.resampling import ResizedAxis, Sampling, TapTable, tap_table
from fourfold.types import Shape

_FORMS = ((False, False), (True, False), (False, True))  # align_corners, half_pixel_centers
_MODES = {"bilinear": "linear"}  # older name
_LIMITS: dict[str, Callable[..., float]] = {"not_larger": min, "not_smaller": max}


@converts("Resize", "Upsample")
def resize(op: Operation) -> None:
    """resize_nearest or resize_bilinear between transposes, else resize."""
    x, sampling = op.input_type(0), _sampling(op)
    axes = tuple(
        one for one in _resized_axes(op) if (one.size, one.scale) != (x.shape[one.axis], 1)
    )
    if not axes:
        op.give_value(op.input(0))
        return
    attributes = ResizeAxes(axes, sampling, op.real_attribute("extrapolation_value", 0.0))
    plain = _plain(attributes, x.shape) if min(one.axis for one in axes) > 1 else None
    if plain is not None:
        name = "resize_nearest" if sampling.mode == "nearest" else "resize_bilinear"
        image = with_line(op, to_channels_last(op, op.input(0)))
        value = op.add(name, image, attributes=plain, part="resized")
        give_channels_first(op, without_line(op, value, x.rank))
    else:
        _general(op, attributes)


def _sampling(op: Operation) -> Sampling:
    """Return the sampling attributes; before opset 11 pixel centers were not at half pixels."""
    old, mode = _is_old(op), op.text_attribute("mode", "nearest")
    kind = "asymmetric" if old else "half_pixel"
    return Sampling(
        _MODES.get(mode, mode),
        op.text_attribute("coordinate_transformation_mode", kind),
        op.text_attribute("nearest_mode", "floor" if old else "round_prefer_floor"),
        op.real_attribute("cubic_coeff_a", -0.75),
        bool(op.attribute("exclude_outside", 0)),
        bool(op.attribute("antialias", 0)),
    )


def _is_old(op: Operation) -> bool:
    return op.record.op == "Upsample" or op.version < 11


def _resized_axes(op: Operation) -> list[ResizedAxis]:
    """Return the resized axes with their new sizes."""
    shape, named = op.input_type(0).shape, op.list_attribute("axes")
    axes = range(len(shape)) if named is None else [axis_of(axis, len(shape)) for axis in named]
    scales = _numbers(op, 1 if _is_old(op) else 2)
    if scales:
        if len(scales) != len(axes) or min(scales) <= 0:
            raise ValueError(f"scales {list(scales)} do not fit {list(shape)}")
        sizes = [
            int(np.floor(np.float32(shape[axis] * scale)))
            for axis, scale in zip(axes, scales, strict=True)
        ]
    else:
        sizes = _sizes(op, [shape[axis] for axis in axes])
        scales = tuple(n / max(shape[axis], 1) for axis, n in zip(axes, sizes, strict=True))
    if min(sizes, default=1) < 1:
        raise ValueError(f"an output size of {sizes} is not valid")
    parts = _crop(op, len(axes))
    return [ResizedAxis(*one) for one in zip(axes, sizes, scales, *parts, strict=True)]


def _sizes(op: Operation, before: list[int]) -> list[int]:
    """Return the requested sizes, or sizes limited by them that keep the aspect ratio."""
    requested = op.integers(3, "sizes")
    if len(requested) != len(before) or min(before, default=1) < 1:
        raise ValueError(f"sizes {list(requested)} do not fit {before}")
    limit = _LIMITS.get(op.text_attribute("keep_aspect_ratio_policy", "stretch"))
    if limit is None:
        return list(requested)
    scale = limit(size / own for size, own in zip(requested, before, strict=True))
    return [int(np.floor(scale * own + 0.5)) for own in before]


def _crop(op: Operation, count: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return start and end of the cropped region along each axis, as fractions."""
    full_range = (0.0,) * count, (1.0,) * count
    if op.text_attribute("coordinate_transformation_mode", "") != "tf_crop_and_resize":
        return full_range
    region = op.constant(1, "roi").reshape(-1).astype(np.float64)
    if region.size != 2 * count:
        raise ValueError(f"its region {region.tolist()} does not fit {count} axes")
    return tuple(region[:count].tolist()), tuple(region[count:].tolist())


def _numbers(op: Operation, index: int) -> tuple[float, ...]:
    """Return the scales; the oldest opset has them as an attribute."""
    listed = op.real_list_attribute("scales")
    if listed is not None:
        return listed
    if op.optional(index) is None:
        return ()
    return tuple(float(number) for number in op.constant(index, "scales").reshape(-1))


def _plain(attributes: ResizeAxes, shape: Shape) -> Resize | None:
    """Return the attributes of an equivalent 2-D resize op, which has faster kernels, or None."""
    sampling, inner = attributes.sampling, shape[2:]
    if not 1 <= len(inner) <= 2 or sampling.mode == "cubic" or sampling.antialias:
        return None
    tables: list[TapTable | None] = [None] * len(inner)
    sizes = list(inner)
    for one in attributes.axes:
        tables[one.axis - 2] = tap_table(sampling, one, shape[one.axis])
        sizes[one.axis - 2] = one.size
    if any(table is not None and table.outside.any() for table in tables):
        return None
    extra = 2 - len(inner)
    height, width = (1,) * extra + tuple(sizes)
    for form in _FORMS:
        plain = Resize((height, width), *form)
        agrees = _agrees_nearest if sampling.mode == "nearest" else _agrees_linear
        pairs = enumerate(zip(inner, tables, strict=True), extra)
        if all(agrees(plain, axis, size, table) for axis, (size, table) in pairs):
            return plain
    return None


def _agrees_nearest(plain: Resize, axis: int, size: int, table: TapTable | None) -> bool:
    """Return True if the op reads the elements of the table along an axis; None keeps the axis."""
    expected = np.arange(size) if table is None else table.indices[:, 0]
    return np.array_equal(nearest(plain, axis, size), expected)


def _agrees_linear(plain: Resize, axis: int, size: int, table: TapTable | None) -> bool:
    lower, upper, share = neighbours(plain, axis, size)
    expected = np.arange(size) if table is None else (table.indices * table.weights).sum(axis=1)
    return np.allclose(lower + (upper - lower) * share, expected, atol=1e-4)


def _general(op: Operation, attributes: ResizeAxes) -> None:
    """Resize with an unchanged axis transposed to the end, or with a new axis if all change."""
    x = op.input_type(0)
    changed = {one.axis for one in attributes.axes}
    unchanged = [axis for axis in range(x.rank) if axis not in changed]
    if not unchanged:
        value = op.reshaped(op.input(0), (*x.shape, 1), "column")
        value = op.add("resize", value, attributes=attributes, part="resized")
        op.give_value(op.reshaped(value, op.type_of(value).shape[:-1], "flat"))
        return
    last = 1 if 1 in unchanged else unchanged[-1]
    order = last_order(last, x.rank)
    axes = tuple(replace(one, axis=order.index(one.axis)) for one in attributes.axes)
    value = op.transposed(op.input(0), order, "image")
    value = op.add("resize", value, attributes=replace(attributes, axes=axes), part="resized")
    op.give_value(op.transposed(value, inverse_order(order), "planes"))


@converts("DepthToSpace", "SpaceToDepth")
def blocks(op: Operation) -> None:
    """depth_to_space or space_to_depth between transposes, or two reshapes and a transpose."""
    size, x = op.attribute("blocksize", 0), op.input_type(0)
    if size < 1 or x.rank != 4:
        raise ValueError(f"{x} cannot be split into blocks of {size}")
    if op.text_attribute("mode", "DCR") == "CRD":
        _interleaved(op, size)
        return
    name = "depth_to_space" if op.record.op == "DepthToSpace" else "space_to_depth"
    image = to_channels_last(op, op.input(0))
    value = op.add(name, image, attributes=Block(size), part="moved")
    give_channels_first(op, value)


def _interleaved(op: Operation, size: int) -> None:
    """Convert the CRD channel order: [N,C,b,b,H,W] becomes [N,C,H,b,W,b], or the reverse."""
    images, channels, height, width = op.input_type(0).shape
    if op.record.op == "SpaceToDepth":
        if height % size or width % size:
            raise ValueError(
                f"an image of {height} by {width} cannot be split into blocks of {size}"
            )
        height, width = height // size, width // size
        split = op.reshaped(op.input(0), (images, channels, height, size, width, size), "split")
        order = Transpose((0, 1, 3, 5, 2, 4))
        turned = op.add("transpose", split, attributes=order, part="turned")
        shape = (images, channels * size * size, height, width)
        op.give("reshape", turned, attributes=Reshape(shape))
        return
    if channels % (size * size):
        raise ValueError(f"{channels} channels cannot form blocks of {size}")
    remaining = channels // (size * size)
    split = op.reshaped(op.input(0), (images, remaining, size, size, height, width), "split")
    turned = op.add("transpose", split, attributes=Transpose((0, 1, 4, 2, 5, 3)), part="turned")
    shape = (images, remaining, height * size, width * size)
    op.give("reshape", turned, attributes=Reshape(shape))


_SAMPLE_MODES = {"bilinear": "linear", "bicubic": "cubic"}  # older names


@converts("GridSample")
def grid_sample(op: Operation) -> None:
    """grid_sample between transposes."""
    mode = op.text_attribute("mode", "linear")
    attributes = GridSample(
        _SAMPLE_MODES.get(mode, mode),
        op.text_attribute("padding_mode", "zeros"),
        bool(op.attribute("align_corners", 0)),
    )
    image = to_channels_last(op, op.input(0))
    value = op.add("grid_sample", image, op.input(1), attributes=attributes, part="sampled")
    give_channels_first(op, value)


@converts("RoiAlign")
def roi_align(op: Operation) -> None:
    """roi_align between transposes."""
    newer = "half_pixel" if op.version >= 16 else "output_half_pixel"
    kind = op.text_attribute("coordinate_transformation_mode", newer)
    attributes = RoiAlign(
        (op.attribute("output_height", 1), op.attribute("output_width", 1)),
        op.attribute("sampling_ratio", 0),
        op.real_attribute("spatial_scale", 1.0),
        half_pixel=kind == "half_pixel",
        largest=op.text_attribute("mode", "avg") == "max",
    )
    image = to_channels_last(op, op.input(0))
    value = op.add(
        "roi_align", image, op.input(1), op.input(2), attributes=attributes, part="cells"
    )
    give_channels_first(op, value)


@converts("AffineGrid")
def affine_grid(op: Operation) -> None:
    """batch_matmul of all positions with the matrices."""
    sizes = op.integers(1, "size")
    batch = sizes[0]
    inner = sizes[2:]
    grid = np.stack(
        [*_positions(inner, bool(op.attribute("align_corners", 0))), np.ones(inner)], -1
    )
    flat = grid.reshape(1, -1, len(inner) + 1).astype(op.input_type(0).dtype.numpy)
    product = op.add(
        "batch_matmul",
        op.add_constant(flat, "places"),
        op.input(0),
        attributes=BatchMatmul(transposed=True),
        part="moved",
    )
    op.give("reshape", product, attributes=Reshape((batch, *inner, len(inner))))


def _positions(sizes: tuple[int, ...], corners: bool) -> list[np.ndarray]:
    """Return the position of each element along each axis, from -1 to 1, last axis first."""
    lines = []
    for size in sizes:
        steps = np.arange(size)
        line = (2 * steps + 1) / size - 1
        if corners:
            line = 2 * steps / (size - 1) - 1 if size > 1 else np.zeros(1)
        lines.append(line)
    return [*np.meshgrid(*lines, indexing="ij")][::-1]

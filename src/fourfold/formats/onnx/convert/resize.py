"""Operators that make images larger or smaller, or move pixels into channels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fourfold.formats.onnx.convert.window import channels_first, channels_last
from fourfold.formats.onnx.operation import Operation, axis_of
from fourfold.formats.onnx.rule import converts
from fourfold.formats.refusal import Unconvertible
from fourfold.kernels.move import Block
from fourfold.op.rules import Resize
from fourfold.ops.gather import Gather
from fourfold.ops.reshape import Reshape
from fourfold.ops.resize_bilinear import neighbours
from fourfold.ops.resize_nearest import nearest
from fourfold.ops.transpose import Transpose
from fourfold.types import Shape

_FORMS = ((False, False), (True, False), (False, True))  # align_corners, half_pixel_centers
_ROUND: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
}


@converts("Resize", "Upsample")
def resize(op: Operation) -> None:
    """resize_nearest or resize_bilinear between transposes, or gather along each axis."""
    x, mode = op.input_type(0), op.text_attribute("mode", "nearest")
    scales, sizes = _targets(op, x.shape)
    ways = [_positions(op, x.shape[axis], sizes[axis], scales[axis]) for axis in range(x.rank)]
    if op.attribute("antialias", 0) and any(scale < 1 for scale in scales):
        raise Unconvertible("it smooths what it makes smaller")
    if mode == "nearest":
        _nearest(op, sizes, ways)
    elif mode in ("linear", "bilinear"):
        _linear(op, sizes, ways)
    else:
        raise Unconvertible(f"its mode '{mode}' is not known yet")


def _targets(op: Operation, shape: Shape) -> tuple[tuple[float, ...], Shape]:
    """The scale of each axis, and the sizes that the result has."""
    old = op.record.op == "Upsample" or op.version < 11
    named = op.list_attribute("axes")
    axes = range(len(shape)) if named is None else [axis_of(axis, len(shape)) for axis in named]
    scales, sizes = [1.0] * len(shape), list(shape)
    place = 1 if old else 2
    given = _numbers(op, place)
    if given:
        if len(given) != len(axes) or min(given) <= 0:
            raise ValueError(f"scales {list(given)} do not fit {list(shape)}")
        for axis, scale in zip(axes, given, strict=True):
            scales[axis], sizes[axis] = scale, int(np.floor(np.float32(shape[axis] * scale)))
    else:
        asked = op.integers(3, "sizes")
        if (
            len(asked) != len(axes)
            or op.text_attribute("keep_aspect_ratio_policy", "stretch") != "stretch"
        ):
            raise Unconvertible("its sizes are limits that keep the aspect ratio")
        for axis, size in zip(axes, asked, strict=True):
            scales[axis], sizes[axis] = size / max(shape[axis], 1), size
    if min(sizes) < 1:
        raise ValueError(f"an image of {sizes} is not possible")
    return tuple(scales), tuple(sizes)


def _numbers(op: Operation, place: int) -> tuple[float, ...]:
    """The scales, which the oldest operator set has as an attribute."""
    listed = op.real_list_attribute("scales")
    if listed is not None:
        return listed
    if op.optional(place) is None:
        return ()
    return tuple(float(number) for number in op.constant(place, "scales").reshape(-1))


def _positions(op: Operation, size: int, result: int, scale: float) -> np.ndarray:
    """Where along an axis of the input each element of the result lies."""
    old = op.record.op == "Upsample" or op.version < 11
    kind = "asymmetric" if old else "half_pixel"
    kind = op.text_attribute("coordinate_transformation_mode", kind)
    steps = np.arange(result, dtype=np.float64)
    if kind == "asymmetric":
        return steps / scale
    if kind == "align_corners":
        return steps * (size - 1) / max(result - 1, 1)
    if kind == "half_pixel" or (kind == "pytorch_half_pixel" and result > 1):
        return (steps + 0.5) / scale - 0.5
    if kind == "pytorch_half_pixel":
        return np.zeros(1)
    raise Unconvertible(f"its coordinates '{kind}' are not known yet")


def _nearest(op: Operation, sizes: Shape, ways: list[np.ndarray]) -> None:
    x = op.input_type(0)
    old = op.record.op == "Upsample" or op.version < 11
    rounding = op.text_attribute("nearest_mode", "floor" if old else "round_prefer_floor")
    if rounding not in _ROUND:
        raise ValueError(f"it does not say how to round: '{rounding}'")
    places = [
        np.clip(_ROUND[rounding](np.round(way, 6)), 0, size - 1).astype(np.int32)
        for way, size in zip(ways, x.shape, strict=True)
    ]
    if x.rank == 4 and sizes[:2] == x.shape[:2]:
        for form in _FORMS:
            attributes = Resize((sizes[2], sizes[3]), *form)
            found = (nearest(attributes, axis, x.shape[2 + axis]) for axis in (0, 1))
            if all(map(np.array_equal, found, places[2:])):
                image = channels_last(op, op.input(0))
                value = op.add("resize_nearest", image, attributes=attributes, part="resized")
                op.give_value(channels_first(op, value, 4))
                return
    value = op.input(0)
    for axis, (size, chosen) in enumerate(zip(x.shape, places, strict=True)):
        if not np.array_equal(chosen, np.arange(size)):
            indices = op.made(chosen, f"places{axis}")
            value = op.add("gather", value, indices, attributes=Gather(axis), part=f"axis{axis}")
    op.give_value(value)


def _linear(op: Operation, sizes: Shape, ways: list[np.ndarray]) -> None:
    x = op.input_type(0)
    if x.rank not in (3, 4) or sizes[:2] != x.shape[:2]:
        raise Unconvertible("it changes other axes than those of an image")
    rows = (1, 1) if x.rank == 3 else (x.shape[2], sizes[2])
    columns = (x.shape[-1], sizes[-1])
    wanted = [np.zeros(1), ways[2]] if x.rank == 3 else ways[2:]
    for form in _FORMS:
        attributes = Resize((rows[1], columns[1]), *form)
        pairs = ((0, rows[0]), (1, columns[0]))
        found = (_ways(attributes, axis, size) for axis, size in pairs)
        limits = (np.clip(way, 0, size - 1) for way, (_, size) in zip(wanted, pairs, strict=True))
        if all(np.allclose(a, b, atol=1e-4) for a, b in zip(found, limits, strict=True)):
            image = channels_last(op, op.input(0))
            value = op.add("resize_bilinear", image, attributes=attributes, part="resized")
            op.give_value(channels_first(op, value, x.rank))
            return
    raise Unconvertible("its coordinates are not known yet")


def _ways(attributes: Resize, axis: int, size: int) -> np.ndarray:
    """Where the op reads along an axis, with what lies beyond the ends there."""
    lower, upper, share = neighbours(attributes, axis, size)
    ways: np.ndarray = lower + (upper - lower) * share
    return ways


@converts("DepthToSpace", "SpaceToDepth")
def blocks(op: Operation) -> None:
    """depth_to_space or space_to_depth between transposes, or two reshapes and a transpose."""
    size, x = op.attribute("blocksize", 0), op.input_type(0)
    if size < 1 or x.rank != 4:
        raise ValueError(f"blocks of {size} cannot be made of {x}")
    if op.text_attribute("mode", "DCR") == "CRD":
        _interleaved(op, size)
        return
    name = "depth_to_space" if op.record.op == "DepthToSpace" else "space_to_depth"
    image = channels_last(op, op.input(0))
    value = op.add(name, image, attributes=Block(size), part="moved")
    op.give_value(channels_first(op, value, 4))


def _interleaved(op: Operation, size: int) -> None:
    """The channels of a block lie apart: [N,C,b,b,H,W] becomes [N,C,H,b,W,b], or the other way."""
    images, channels, height, width = op.input_type(0).shape
    if op.record.op == "SpaceToDepth":
        if height % size or width % size:
            raise ValueError(f"an image of {height} by {width} has no blocks of {size}")
        height, width = height // size, width // size
        split = op.reshaped(op.input(0), (images, channels, height, size, width, size), "split")
        order = Transpose((0, 1, 3, 5, 2, 4))
        turned = op.add("transpose", split, attributes=order, part="turned")
        shape = (images, channels * size * size, height, width)
        op.give("reshape", turned, attributes=Reshape(shape))
        return
    if channels % (size * size):
        raise ValueError(f"{channels} channels do not make blocks of {size}")
    left = channels // (size * size)
    split = op.reshaped(op.input(0), (images, left, size, size, height, width), "split")
    turned = op.add("transpose", split, attributes=Transpose((0, 1, 4, 2, 5, 3)), part="turned")
    shape = (images, left, height * size, width * size)
    op.give("reshape", turned, attributes=Reshape(shape))

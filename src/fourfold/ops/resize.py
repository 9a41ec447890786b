"""y = x with some axes resized: the nearest element, or a weighted sum of several.

It supports all coordinate modes of ONNX. For images, `resize_nearest` and `resize_bilinear` have
kernels of their own.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import Expression, Pointer, const, load, where
from fourfold.codegen.kernel import Kernel
from fourfold.ops.base import Case, Op, Types, Variant
from fourfold.ops.base.rules import ANY, FLOATS, require, require_axis, require_kind, takes
from fourfold.ops.kernels.grid import plain_grid
from fourfold.ops.kernels.reduce import start_value
from fourfold.processing.resampling import (
    COORDINATES,
    MODES,
    ROUNDINGS,
    ResizedAxis,
    Sampling,
    TapTable,
    tap_table,
)
from fourfold.types import TensorType


@dataclass(frozen=True)
class ResizeAxes:
    """The axes to resize, the sampling mode, and the value outside of x for crops."""

    axes: tuple[ResizedAxis, ...]
    sampling: Sampling
    extrapolation: float = 0.0


@takes("resize", 1)
def infer(attributes: ResizeAxes, x: TensorType) -> Types:
    op, sampling, shape = "resize", attributes.sampling, list(x.shape)
    require(sampling.mode in MODES, op, f"there is no mode {sampling.mode!r}")
    supported = sampling.coordinates in COORDINATES and sampling.rounding in ROUNDINGS
    require(supported, op, f"{sampling} has an unknown coordinate mode or rounding")
    require_kind(op, ANY if sampling.mode == "nearest" else FLOATS, x)
    for one in attributes.axes:
        require_axis(op, one.axis, x.rank)
        fits = min(one.size, x.shape[one.axis]) > 0 and one.scale > 0
        require(fits, op, f"axis {one.axis} of {x} cannot become {one.size}")
        shape[one.axis] = one.size
    require(
        len({one.axis for one in attributes.axes}) == len(attributes.axes),
        op,
        "an axis is listed twice",
    )
    return (x.with_shape(*shape),)


def reference(attributes: ResizeAxes, x: np.ndarray) -> np.ndarray:
    y, outside = x, np.zeros((1,) * x.ndim, np.bool_)
    for one in attributes.axes:
        table = tap_table(attributes.sampling, one, x.shape[one.axis])
        along = [1] * x.ndim
        along[one.axis] = -1
        outside = outside | table.outside.reshape(along)
        y = _sampled(attributes.sampling, table, y, one.axis)
    return np.where(outside, np.asarray(attributes.extrapolation, x.dtype), y)


def _sampled(sampling: Sampling, table: TapTable, x: np.ndarray, axis: int) -> np.ndarray:
    """Resample one axis; the axes are independent."""
    if sampling.mode == "nearest":
        return x.take(table.indices[:, 0], axis)
    shape = [1] * x.ndim
    shape[axis] = -1
    taps = range(table.indices.shape[1])
    parts = (x.take(table.indices[:, n], axis) * table.weights[:, n].reshape(shape) for n in taps)
    return np.asarray(sum(parts), x.dtype)


def refuses(context: NodeContext) -> str | None:
    assert isinstance(context.attributes, ResizeAxes)
    channels = any(one.axis == context.input.rank - 1 for one in context.attributes.axes)
    return "resizing the channels is not supported" if channels else None


class _AxisTaps:
    """The taps of one axis as tables that a kernel reads."""

    def __init__(self, context: NodeContext, kernel: Kernel, one: ResizedAxis) -> None:
        assert isinstance(context.attributes, ResizeAxes)
        sampling = context.attributes.sampling
        table = tap_table(sampling, one, context.input.shape[one.axis])
        self.axis, self.kernel = one.axis, kernel
        self.taps = kernel.size(f"taps{one.axis}", table.indices.shape[1])
        self.indices = context.packed(kernel, "indices", table.indices)
        self.weights, self.outside = None, None
        if sampling.mode != "nearest":
            self.weights = context.packed(kernel, "weights", table.weights)
        if table.outside.any():
            self.outside = context.packed(kernel, "outside", table.outside.astype(np.int32))

    def index(self, at: Expression, tap: Expression) -> Expression:
        return self.kernel.let(load(self.indices, at * self.taps + tap, "int"), "from")

    def weight(self, at: Expression, tap: Expression, kind: str) -> Expression:
        assert self.weights is not None
        return load(self.weights, at * self.taps + tap, kind)


def build(context: NodeContext) -> None:
    """Sum the elements that contribute to each result, weighted by the product over all axes."""
    attributes = context.attributes
    assert isinstance(attributes, ResizeAxes)
    kernel = context.kernel("resize_" + attributes.sampling.mode)
    view, target = context.read(kernel, 0), context.write(kernel)
    axes = [_AxisTaps(context, kernel, one) for one in attributes.axes]
    for pixel, slice_ in plain_grid(kernel, context.device, target):
        at = [kernel.let(position, "at") for position in target.coordinates(pixel)]
        source = list(at)
        if attributes.sampling.mode == "nearest":
            for one in axes:
                source[one.axis] = one.index(at[one.axis], const(0))
            value = view.load(view.pixel(source), slice_)
        else:
            total = kernel.variable(start_value(view.kind, 0.0), "total")
            with ExitStack() as loops:
                weight: Expression = const(1.0, view.kind)
                for one in axes:
                    tap = loops.enter_context(kernel.loop(one.taps, title="tap"))
                    source[one.axis] = one.index(at[one.axis], tap)
                    weight = kernel.let(one.weight(at[one.axis], tap, view.kind) * weight, "w")
                kernel.add(total, view.load(view.pixel(source), slice_) * weight)
            value = total
        crops = [(one.outside, at[one.axis]) for one in axes if one.outside is not None]
        target.store(pixel, slice_, _cropped(crops, value, attributes.extrapolation))


def _cropped(
    crops: list[tuple[Pointer, Expression]], value: Expression, extrapolation: float
) -> Expression:
    """Return the value, or the extrapolation value outside of x."""
    for outside, at in crops:
        inside = load(outside, at, "int").equals(0)
        value = where(inside, value, const(extrapolation, value.kind, 4))
    return value


def _case(shape: str, axes: dict[int, tuple[int, float]], *sampling: object) -> Case:
    resized = tuple(ResizedAxis(axis, *size) for axis, size in axes.items())
    return Case((shape,), ResizeAxes(resized, Sampling(*sampling)))  # type: ignore[arg-type]


_CROP = (ResizedAxis(1, 5, 1.0, 0.2, 1.2), ResizedAxis(2, 3, 3 / 7, -0.5, 0.6))
OP = Op(
    name="resize",
    attributes=ResizeAxes,
    infer=infer,
    reference=reference,
    heavy=True,
    variants=(Variant("taps", build, refuses),),
    cases=(
        _case("f32[1,1,1,1]", {1: (3, 3.0)}),
        _case("f32[7,5]", {0: (11, 1.6)}, "nearest", "asymmetric", "floor"),
        _case("i32[2,5,7,3]", {1: (3, 0.6), 2: (13, 1.9)}, "nearest", "half_pixel", "ceil"),
        _case("f32[2,5,7,3]", {1: (11, 2.2)}, "nearest", "align_corners", "round_prefer_ceil"),
        _case("f32[2,5,7,13]", {1: (11, 2.2), 2: (3, 0.5)}, "linear"),
        _case("f32[1,5,7,8]", {1: (1, 0.2), 2: (3, 3 / 7)}, "linear", "pytorch_half_pixel"),
        _case("f32[1,3,5,7,3]", {1: (5, 5 / 3), 2: (3, 0.6), 3: (11, 1.6)}, "linear"),
        _case("f32[2,5,3]", {1: (9, 1.9)}, "linear", "half_pixel_symmetric"),
        _case("f32[1,5,7,5]", {1: (8, 1.6), 2: (5, 0.8)}, "cubic"),
        _case("f32[1,5,7,4]", {1: (8, 1.6)}, "cubic", "asymmetric", "floor", -0.5, True),
        _case("f32[1,11,7,3]", {1: (3, 0.3)}, "linear", "half_pixel", "floor", 0, False, True),
        _case("f32[1,11,7,3]", {2: (4, 0.6)}, "cubic", "half_pixel", "floor", -0.75, True, True),
        Case(
            ("f32[1,5,7,3]",),
            ResizeAxes(_CROP, Sampling("linear", "tf_crop_and_resize"), extrapolation=7.5),
        ),
    ),
)

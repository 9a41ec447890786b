"""Running totals along an axis: cumulative sums and products."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fourfold.codegen.broadcast import mask_beyond
from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import Expression, const, vector
from fourfold.codegen.kernel import Kernel, Variable
from fourfold.codegen.view import View
from fourfold.device import DeviceInfo
from fourfold.ops.base import Case, Types, Variant
from fourfold.ops.base.rules import NUMBERS, Infer, require_axis, require_kind, takes
from fourfold.ops.kernels.grid import gpu_group, independent_group
from fourfold.ops.kernels.reduce import start_value
from fourfold.types import TensorType


def line_grid(
    kernel: Kernel, device: DeviceInfo, view: View, axis: int
) -> tuple[Callable[[Expression], Expression], Expression]:
    """Start one work-item for each slice and line along `axis` (not the last axis).

    Returns a function from the position along the line to the pixel, and the slice.
    """
    shape = view.type.shape
    inner = math.prod(shape[axis + 1 : -1])
    lines = math.prod(shape[:axis]) * inner
    group = (1, 1) if device.is_cpu else gpu_group(lines, view.type.slices)
    line, slice_ = kernel.ids(lines, view.type.slices, local=group)
    step = kernel.size("line_step", inner)
    first = kernel.let(line // step * (step * view.axis(axis)) + line % step, "first")
    return lambda position: kernel.let(first + position * step, "at"), slice_


@dataclass(frozen=True)
class RunningTotal:
    """The axis of a running total.

    `exclusive` leaves out an element's own value, `reverse` starts at the end of the axis.
    """

    axis: int
    exclusive: bool = False
    reverse: bool = False


@dataclass(frozen=True)
class Total:
    """A kind of total: kernel name, start value, and how a value is added.

    `more` returns the new total as an expression, `advance` updates a variable.
    """

    title: str
    start: float
    more: Callable[[Expression, Expression], Expression]
    advance: Callable[[Kernel, Variable, Expression], None]


SUM = Total("cumsum", 0.0, lambda total, value: total + value, Kernel.add)
PRODUCT = Total(
    "cumprod",
    1.0,
    lambda total, value: total * value,
    lambda kernel, total, value: kernel.set(total, total * value),
)


def running_type(op: str) -> Infer:
    """Return the type rule of a running total: numbers in, the same type out."""

    @takes(op, 1)
    def infer(attributes: RunningTotal, x: TensorType) -> Types:
        require_kind(op, NUMBERS, x)
        require_axis(op, attributes.axis, x.rank)
        return (x,)

    return infer


def running_reference(
    total: Total, function: np.ufunc
) -> Callable[[RunningTotal, np.ndarray], np.ndarray]:
    """Return the reference. `function` is the ufunc that combines a total and a value."""

    def reference(attributes: RunningTotal, x: np.ndarray) -> np.ndarray:
        ordered = np.flip(x, attributes.axis) if attributes.reverse else x
        totals = np.asarray(function.accumulate(ordered, attributes.axis, x.dtype))
        if attributes.exclusive:
            first = np.full_like(np.take(totals, [0], attributes.axis), total.start)
            others = np.delete(totals, -1, attributes.axis)
            totals = np.concatenate([first, others], attributes.axis)
        return np.flip(totals, attributes.axis) if attributes.reverse else totals

    return reference


def running_variants(total: Total) -> tuple[Variant, ...]:
    """Return the variant of a running total."""

    def build(context: NodeContext) -> None:
        attributes = context.attributes
        assert isinstance(attributes, RunningTotal)
        if attributes.axis == context.input.rank - 1:
            _along_channels(context, attributes, total)
        else:
            _along_pixels(context, attributes, total)

    return (Variant("walk", build),)


def running_cases(make: Callable[..., RunningTotal]) -> tuple[Case, ...]:
    """Return cases along every kind of axis, in both directions; products are of few numbers."""
    return (
        Case(("f32[7]",), make(0)),
        Case(("f32[3,5]",), make(1, exclusive=True)),
        Case(("f32[3,5]",), make(1, reverse=True)),
        Case(("f32[3,13]",), make(1, exclusive=True, reverse=True), low=-1.5, high=1.5),
        Case(("f32[3,5]",), make(0)),
        Case(("f32[2,5,7,13]",), make(1)),
        Case(("f32[2,5,7,13]",), make(2, exclusive=True)),
        Case(("f32[2,5,7,3]",), make(0, reverse=True)),
        Case(("f32[2,1,3,5,7]",), make(3, exclusive=True, reverse=True)),
        Case(("i32[3,11]",), make(1, exclusive=True), low=-2, high=3),
        Case(("i32[3,11]",), make(0, exclusive=True), low=-29, high=29),
    )


def _position(
    attributes: RunningTotal, kernel: Kernel, step: Expression, count: Expression
) -> Expression:
    """Return the position of a step, counted from the end if totals start there."""
    return kernel.let(count - 1 - step, "place") if attributes.reverse else step


def _along_pixels(context: NodeContext, attributes: RunningTotal, total: Total) -> None:
    """Four channels at once, one work-item per line."""
    kernel = context.kernel(total.title, sums=True)
    source, target = context.read(kernel, 0), context.write(kernel)
    pixel, slice_ = line_grid(kernel, context.device, source, attributes.axis)
    so_far = kernel.variable(start_value(source.kind, total.start), "total")
    count = source.axis(attributes.axis)
    with kernel.loop(count, title="step") as step:
        at = pixel(_position(attributes, kernel, step, count))
        value = source.load(at, slice_)
        if attributes.exclusive:
            target.store(at, slice_, so_far)
            total.advance(kernel, so_far, value)
        else:
            total.advance(kernel, so_far, value)
            target.store(at, slice_, so_far)


def _along_channels(context: NodeContext, attributes: RunningTotal, total: Total) -> None:
    """Channel by channel, one work-item per pixel."""
    kernel = context.kernel(f"{total.title}_channels", sums=True)
    source, target = context.read(kernel, 0), context.write(kernel)
    pixels = context.input.pixels
    (pixel,) = kernel.ids(pixels, local=independent_group(context.device, pixels, 1))
    so_far = kernel.variable(start_value(source.kind, total.start).lane(0), "total")
    count = source.slices
    with kernel.loop(count, title="step") as step:
        slice_ = _position(attributes, kernel, step, count)
        value = _with_neutral(source, source.load(pixel, slice_), slice_, total)
        lanes: list[Expression] = [const(0, source.kind)] * 4
        for lane in reversed(range(4)) if attributes.reverse else range(4):
            after = kernel.let(total.more(so_far, value.lane(lane)), "sum")
            lanes[lane] = kernel.variable(so_far, "before") if attributes.exclusive else after
            kernel.set(so_far, after)
        target.store(pixel, slice_, vector(*lanes))


def _with_neutral(view: View, value: Expression, slice_: Expression, total: Total) -> Expression:
    """Replace the zeros in the lanes beyond the last channel with the neutral element."""
    if total.start == 0.0:
        return value
    return mask_beyond(view, value, slice_, start_value(view.kind, total.start))

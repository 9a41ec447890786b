"""Kernels of pools: one output pixel and slice per work-item, with loops over the window."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import Expression, const, convert, maximum, minimum
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.view import View
from fourfold.ops.base import Variant
from fourfold.ops.base.window import NO_PADDING, Pool2d, PoolAxes
from fourfold.ops.kernels.grid import plain_grid
from fourfold.ops.kernels.reduce import start_value

Combine = Callable[[Expression, Expression], Expression]
WindowCombine = Callable[[Any, Expression, Expression], Expression]
WindowFinish = Callable[[Any, Expression, Expression, Expression], Expression]
MAX_UNROLLED_TAPS = 16  # taps of a window


def _unchanged(
    attributes: object, total: Expression, inside: Expression, padded: Expression
) -> Expression:
    return total


def window_pool_variants(
    combine: WindowCombine, start: float, finish: WindowFinish = _unchanged
) -> tuple[Variant, ...]:
    """Return the variant of a pool over any number of axes.

    `combine(attributes, total, value)` is applied to each tap inside the input, then
    `finish(attributes, total, inside, padded)`. `inside` counts the taps inside the input, `padded`
    those inside the padded input.
    """

    def build(context: NodeContext) -> None:
        attributes = context.attributes
        assert isinstance(attributes, PoolAxes)
        kernel = context.kernel(context.node.op, sums=True)
        source, target = context.read(kernel, 0), context.write(kernel)
        for pixel, slice_ in plain_grid(kernel, context.device, target):
            image, *at = target.coordinates(pixel)
            spans = [TapSpan(kernel, source, attributes, axis, at[axis]) for axis in range(len(at))]
            total = kernel.variable(start_value(source.kind, start), "total")
            with ExitStack() as loops:
                taps = [loops.enter_context(span.walk()) for span in spans]
                coordinates = [span.place(tap) for span, tap in zip(spans, taps, strict=True)]
                value = source.load(source.pixel([image, *coordinates]), slice_)
                kernel.set(total, combine(attributes, total, value))
            inside, padded = const(1), const(1)
            for span in spans:
                inside, padded = inside * span.inside, padded * span.padded
            counts = (convert(count, kernel.real) for count in (inside, padded))
            target.store(pixel, slice_, finish(attributes, total, *counts))

    return (Variant("pool", build),)


class TapSpan:
    """The taps along one axis that are inside the input, for one position of the result."""

    def __init__(
        self, kernel: Kernel, source: View, attributes: PoolAxes, axis: int, at: Expression
    ) -> None:
        self._kernel = kernel
        self._taps = kernel.size(f"filter{axis}", attributes.filter[axis])
        self._step = kernel.size(f"dilation{axis}", attributes.dilation[axis])
        stride = kernel.size(f"stride{axis}", attributes.stride[axis])
        before = kernel.size(f"before{axis}", attributes.before[axis])
        self._start = kernel.let(at * stride - before, "start")
        end = source.axis(1 + axis)
        self._first = kernel.let(self._taps_within(const(0)), "first")
        self._stop = kernel.let(self._taps_within(end), "stop")
        self._after = end + kernel.size(f"after{axis}", attributes.after[axis])

    def _taps_within(self, end: Expression) -> Expression:
        """Return how many taps are before position `end`."""
        distance = maximum(end - self._start, const(0))
        return minimum((distance + (self._step - 1)) // self._step, self._taps)

    def walk(self) -> AbstractContextManager[Expression]:
        return self._kernel.loop(self._stop, self._first, title="tap")

    def place(self, tap: Expression) -> Expression:
        return self._start + tap * self._step

    @property
    def inside(self) -> Expression:
        return self._stop - self._first

    @property
    def padded(self) -> Expression:
        return self._taps_within(self._after)


def pool_variants(combine: Combine, start: float, average: bool) -> tuple[Variant, ...]:
    """Return the variant of a pool. An average divides by the number of taps inside the image."""
    return (Variant("pool", lambda context: _build(context, combine, start, average)),)


def _build(context: NodeContext, combine: Combine, start: float, average: bool) -> None:
    attributes = context.attributes
    assert isinstance(attributes, Pool2d)
    kernel = context.kernel(context.node.op, sums=average)
    source, target = context.read(kernel, 0), context.write(kernel)
    for pixel, slice_ in plain_grid(kernel, context.device, target):
        image, y, x = target.coordinates(pixel)
        if context.device.is_cpu and _is_plain(attributes):
            value = _all_inside(source, attributes, [image, y, x], slice_, combine)
            count = const(attributes.filter[0] * attributes.filter[1], source.kind)
            target.store(pixel, slice_, value / count if average else value)
            continue
        before = (attributes.padding.top, attributes.padding.left)
        first, stop = zip(
            *(
                _span(kernel, source, attributes, before, axis, at)
                for axis, at in enumerate((y, x))
            ),
            strict=True,
        )
        total = kernel.variable(start_value(source.kind, start), "total")
        with (
            kernel.loop(stop[0], first[0], title="row") as row,
            kernel.loop(stop[1], first[1], title="column") as column,
        ):
            value = source.load(source.pixel([image, row, column]), slice_)
            kernel.set(total, combine(total, value))
        result: Expression = total
        if average:
            count = (stop[0] - first[0]) * (stop[1] - first[1])
            result = total / convert(count, source.kind)
        target.store(pixel, slice_, result)


def _is_plain(attributes: Pool2d) -> bool:
    """Return True if every window is inside the image and small enough to unroll."""
    height, width = attributes.filter
    return attributes.padding == NO_PADDING and height * width <= MAX_UNROLLED_TAPS


def _all_inside(
    source: View,
    attributes: Pool2d,
    at: list[Expression],
    slice_: Expression,
    combine: Combine,
) -> Expression:
    """Combine all pixels under a window that is inside the image."""
    image, y, x = at
    top, left = y * attributes.stride[0], x * attributes.stride[1]
    first = source.kernel.let(source.pixel([image, top, left]), "first")
    value: Expression | None = None
    for row in range(attributes.filter[0]):
        for column in range(attributes.filter[1]):
            other = source.load(first + source.axis(2) * row + column, slice_)
            value = other if value is None else source.kernel.let(combine(value, other), "total")
    assert value is not None
    return value


def _span(
    kernel: Kernel,
    source: View,
    attributes: Pool2d,
    before: tuple[int, int],
    axis: int,
    at: Expression,
) -> tuple[Expression, Expression]:
    """Return the first row (axis 0) or column under the window inside the image, and the end."""
    step = kernel.size(f"stride{axis}", attributes.stride[axis])
    start = kernel.let(at * step - kernel.size(f"before{axis}", before[axis]), "start")
    size = kernel.size(f"filter{axis}", attributes.filter[axis])
    first = kernel.let(maximum(start, const(0)), "first")
    return first, kernel.let(minimum(start + size, source.axis(axis + 1)), "stop")

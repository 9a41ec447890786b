"""The kernel of 2D pools: one output pixel and slice per work-item, a loop over the window."""

from __future__ import annotations

from collections.abc import Callable

from fourfold.kernel.context import NodeContext
from fourfold.kernel.expression import Expression, const, convert, maximum, minimum
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.view import View
from fourfold.kernels.grid import plain_grid
from fourfold.kernels.reduce import start_value
from fourfold.op import Variant
from fourfold.op.window import NO_PADDING, Pool2d

MAX_UNROLLED_TAPS = 16  # taps of a window
Combine = Callable[[Expression, Expression], Expression]


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

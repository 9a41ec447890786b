"""The kernel of pools: one output pixel and slice a work-item, the window walked by loops."""

from __future__ import annotations

from collections.abc import Callable

from fourfold.kernel.expression import Expression, const, convert, maximum, minimum
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.site import Site
from fourfold.kernel.view import View
from fourfold.op import Variant
from fourfold.ops._grid import plain_grid
from fourfold.ops._reduce import least
from fourfold.ops._window import Pool2d

Combine = Callable[[Expression, Expression], Expression]


def pools(combine: Combine, start: float, average: bool) -> tuple[Variant, ...]:
    """The variant of a pool; an average is divided by how many pixels of the window are inside."""
    return (Variant("pool", lambda site: _build(site, combine, start, average)),)


def _build(site: Site, combine: Combine, start: float, average: bool) -> None:
    attributes = site.attributes
    assert isinstance(attributes, Pool2d)
    kernel = site.kernel(site.node.op)
    source, target = site.read(kernel, 0), site.write(kernel)
    for pixel, slice_ in plain_grid(kernel, site.device, target):
        image, y, x = target.coordinates(pixel)
        before = (attributes.padding.top, attributes.padding.left)
        first, stop = zip(
            *(
                _span(kernel, source, attributes, before, axis, at)
                for axis, at in enumerate((y, x))
            ),
            strict=True,
        )
        total = kernel.variable(least(source.kind, start), "total")
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


def _span(
    kernel: Kernel,
    source: View,
    attributes: Pool2d,
    before: tuple[int, int],
    axis: int,
    at: Expression,
) -> tuple[Expression, Expression]:
    """The first row (axis 0) or column under the window that is inside, and the one after the
    last.
    """
    step = kernel.size(f"stride{axis}", attributes.stride[axis])
    start = kernel.let(at * step - kernel.size(f"before{axis}", before[axis]), "start")
    size = kernel.size(f"filter{axis}", attributes.filter[axis])
    first = kernel.let(maximum(start, const(0)), "first")
    return first, kernel.let(minimum(start + size, source.axis(axis + 1)), "stop")

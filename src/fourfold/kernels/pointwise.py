"""The kernel of a pointwise op that runs alone: four channels of one pixel a work-item, or four
elements wherever they lie.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fourfold.kernel.broadcast import load_for
from fourfold.kernel.byte_io import RUN, store_four
from fourfold.kernel.context import NodeContext, TailStep, with_parameters
from fourfold.kernel.expression import Expression
from fourfold.kernel.location import Layout, Location
from fourfold.kernels.grid import plain_grid, runs_of_four
from fourfold.types import TensorType

Pointwise = Callable[..., Expression]


def pointwise_kernel(context: NodeContext, title: str, pointwise: Pointwise) -> None:
    """dst[i] = f(a[i], b[i], ...), with shapes broadcast against each other."""
    context = _by_elements(context)
    kernel = context.kernel(title)
    views = {
        name: context.view(kernel, name, "src")
        for name in dict.fromkeys(context.node.inputs)
        if name
    }
    target = context.write(kernel)
    attributes = with_parameters(kernel, context.attributes)
    for pixel, slice_ in plain_grid(kernel, context.device, target):
        operands = [
            load_for(views[name], target, pixel, slice_) for name in context.node.inputs if name
        ]
        target.store(pixel, slice_, pointwise(attributes, *operands))


def _by_elements(context: NodeContext) -> NodeContext:
    """The same node on a CPU over one slice of all elements, where its values have one shape and
    lie in one piece, in pixels that fours do not fit into; else as it is.
    """
    names = (*context.node.reads, *context.node.outputs)
    places, types = context.locations, {name: context.types[name] for name in names}
    shape, (fours, rest) = context.output.shape, divmod(context.output.elements, 4)
    fits = context.device.is_cpu and context.output.channels % 4 and not rest
    if not fits or any(name not in places for name in names):
        return context
    if not all(type_.shape == shape and _solid(type_, places[n]) for n, type_ in types.items()):
        return context
    flat = {name: type_.with_shape(fours, 4) for name, type_ in types.items()}
    slices = {name: replace(places[name], layout=Layout.SLICED, pitch=fours) for name in names}
    return context.reshaped(flat, slices)


def _solid(type_: TensorType, place: Location) -> bool:
    """Whether elements lie side by side as NumPy has them, from where fours may be read."""
    plain = place.layout is Layout.ROWS and not place.channels and not place.plane
    return plain and place.pitch == type_.channels and place.offset % 4 == 0


def _by_bytes(context: NodeContext, pointwise: Pointwise) -> tuple[NodeContext, Pointwise]:
    """The same node for kernels that round to bytes at the end of a tail. One that does nothing but
    round is a copy with itself for a tail.
    """
    context = _by_elements(context)
    if context.tail or not getattr(context.attributes, "counts", False):
        return context, pointwise
    return context.with_tail((TailStep(pointwise, context.attributes, (None,)),)), _copy


def _copy(_: object, x: Expression) -> Expression:
    return x


def refuses_bytes(context: NodeContext) -> str | None:
    context, _ = _by_bytes(context, _copy)
    fits = context.counts_bytes and context.output.pixels >= RUN
    return None if fits else "results are not bytes that are rounded sixteen at once"


def byte_kernel(context: NodeContext, title: str, pointwise: Pointwise) -> None:
    """The same where results are bytes: four neighbouring pixels at once."""
    context, pointwise = _by_bytes(context, pointwise)
    kernel = context.kernel(title + "_bytes")
    views = {
        name: context.view(kernel, name, "src")
        for name in dict.fromkeys(context.node.inputs)
        if name
    }
    target = context.write(kernel, counted=True)
    attributes = context.attributes
    if pointwise is not _copy:
        attributes = with_parameters(kernel, attributes)
    for pixel, slice_ in runs_of_four(kernel, target):
        halves = []
        for first in (pixel, kernel.let(pixel + 2, "p")):
            operands = [
                load_for(views[name], target, first, slice_, 2)
                for name in context.node.inputs
                if name
            ]
            halves.append(pointwise(attributes, *operands))
        store_four(target, pixel, slice_, *halves)

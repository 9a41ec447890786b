"""The kernel of a pointwise op that runs alone: four channels, or any four elements, per step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fourfold.codegen.broadcast import load_for
from fourfold.codegen.byte_io import RUN, store_four
from fourfold.codegen.context import NodeContext, TailStep, with_parameters
from fourfold.codegen.expression import Expression
from fourfold.codegen.location import Layout, Location
from fourfold.ops.kernels.grid import plain_grid, runs_of_four
from fourfold.types import TensorType

Pointwise = Callable[..., Expression]


def pointwise_kernel(context: NodeContext, title: str, pointwise: Pointwise) -> None:
    """Write dst[i] = f(a[i], b[i], ...), with broadcast shapes."""
    context = _flattened(context)
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


def _flattened(context: NodeContext) -> NodeContext:
    """Reshape the node to one slice of all its elements if that avoids partial slices.

    Only on a CPU, when channels are no multiple of four and all values have one shape and
    contiguous memory. Otherwise return the context unchanged.
    """
    names = (*context.node.reads, *context.node.outputs)
    locations, types = context.locations, {name: context.types[name] for name in names}
    shape, (fours, remainder) = context.output.shape, divmod(context.output.elements, 4)
    fits = context.device.is_cpu and context.output.channels % 4 and not remainder
    if not fits or any(name not in locations for name in names):
        return context
    if not all(
        type_.shape == shape and _is_contiguous(type_, locations[n]) for n, type_ in types.items()
    ):
        return context
    flat = {name: type_.with_shape(fours, 4) for name, type_ in types.items()}
    slices = {name: replace(locations[name], layout=Layout.SLICED, pitch=fours) for name in names}
    return context.reshaped(flat, slices)


def _is_contiguous(type_: TensorType, location: Location) -> bool:
    """Return True if elements are contiguous in NumPy's order and aligned to four."""
    plain = location.layout is Layout.ROWS and not location.channels and not location.plane
    return plain and location.pitch == type_.channels and location.offset % 4 == 0


def _for_bytes(context: NodeContext, pointwise: Pointwise) -> tuple[NodeContext, Pointwise]:
    """Adapt the node to kernels that round to bytes at the end of a tail.

    A node that only rounds becomes a copy with the rounding as its tail.
    """
    context = _flattened(context)
    if context.tail or not getattr(context.attributes, "counts", False):
        return context, pointwise
    return context.with_tail((TailStep(pointwise, context.attributes, (None,)),)), _copy


def _copy(_: object, x: Expression) -> Expression:
    return x


def refuses_bytes(context: NodeContext) -> str | None:
    context, _ = _for_bytes(context, _copy)
    fits = context.counts_bytes and context.output.pixels >= RUN
    return None if fits else "the results are not bytes that are rounded sixteen at once"


def byte_kernel(context: NodeContext, title: str, pointwise: Pointwise) -> None:
    """Write the pointwise kernel for byte results: four neighboring pixels at once."""
    context, pointwise = _for_bytes(context, pointwise)
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

"""The kernel of a pointwise op that runs alone: four channels of one pixel a work-item."""

from __future__ import annotations

from collections.abc import Callable

from fourfold.kernel.broadcast import load_for
from fourfold.kernel.byte_io import RUN, store_four
from fourfold.kernel.context import NodeContext, with_parameters
from fourfold.kernel.expression import Expression
from fourfold.kernels.grid import plain_grid, runs_of_four


def pointwise_kernel(
    context: NodeContext, title: str, pointwise: Callable[..., Expression]
) -> None:
    """dst[i] = f(a[i], b[i], ...), with shapes broadcast against each other."""
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


def refuses_bytes(context: NodeContext) -> str | None:
    fits = context.counts_bytes and context.output.pixels >= RUN
    return None if fits else "results are not bytes that are rounded sixteen at once"


def byte_kernel(context: NodeContext, title: str, pointwise: Callable[..., Expression]) -> None:
    """The same where results are bytes: four neighbouring pixels at once."""
    kernel = context.kernel(title + "_bytes")
    views = {
        name: context.view(kernel, name, "src")
        for name in dict.fromkeys(context.node.inputs)
        if name
    }
    target = context.write(kernel, counted=True)
    attributes = with_parameters(kernel, context.attributes)
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

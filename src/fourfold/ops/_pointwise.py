"""The kernel of a pointwise op that runs alone: four channels of one pixel a work-item."""

from __future__ import annotations

from collections.abc import Callable

from fourfold.kernel.broadcast import load_for
from fourfold.kernel.counted import RUN, store_four
from fourfold.kernel.expression import Expression
from fourfold.kernel.site import Site, with_parameters
from fourfold.ops._grid import plain_grid, runs_of_four


def pointwise_kernel(site: Site, title: str, pointwise: Callable[..., Expression]) -> None:
    """dst[i] = f(a[i], b[i], ...), with shapes broadcast against each other."""
    kernel = site.kernel(title)
    views = {
        name: site.view(kernel, name, "src") for name in dict.fromkeys(site.node.inputs) if name
    }
    target = site.write(kernel)
    attributes = with_parameters(kernel, site.attributes)
    for pixel, slice_ in plain_grid(kernel, site.device, target):
        operands = [
            load_for(views[name], target, pixel, slice_) for name in site.node.inputs if name
        ]
        target.store(pixel, slice_, pointwise(attributes, *operands))


def refuses_bytes(site: Site) -> str | None:
    fits = site.counts_bytes and site.output.pixels >= RUN
    return None if fits else "results are not bytes that are rounded sixteen at once"


def byte_kernel(site: Site, title: str, pointwise: Callable[..., Expression]) -> None:
    """The same where results are bytes: four neighbouring pixels at once."""
    kernel = site.kernel(title + "_bytes")
    views = {
        name: site.view(kernel, name, "src") for name in dict.fromkeys(site.node.inputs) if name
    }
    target = site.write(kernel, counted=True)
    attributes = with_parameters(kernel, site.attributes)
    for pixel, slice_ in runs_of_four(kernel, target):
        halves = []
        for first in (pixel, kernel.let(pixel + 2, "p")):
            operands = [
                load_for(views[name], target, first, slice_, 2) for name in site.node.inputs if name
            ]
            halves.append(pointwise(attributes, *operands))
        store_four(target, pixel, slice_, *halves)

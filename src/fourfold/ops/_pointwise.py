"""The kernel of a pointwise op that runs alone: four channels of one pixel a work-item."""

from __future__ import annotations

from collections.abc import Callable

from fourfold.kernel.broadcast import load_for
from fourfold.kernel.expression import Expression
from fourfold.kernel.site import Site, with_parameters
from fourfold.ops._grid import plain_grid


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

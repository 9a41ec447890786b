"""A copy of a convolution's input with zeros around it, for devices on which an edge is dear.

A CPU's work-item reads a run of pixels under one filter tap after the other. Where some of them may
lie outside, each must be asked for; a copy with zeros around it costs far less than the asking.
"""

from __future__ import annotations

from fourfold.kernel.kernel import Kernel
from fourfold.kernel.place import Layout, Stored, own_place, storage_elements
from fourfold.kernel.site import Site
from fourfold.kernel.view import View
from fourfold.ops._grid import plain_grid
from fourfold.ops._window import Padding
from fourfold.types import DType


class PaddedInput:
    """The first input of a node, copied into scratch memory by a kernel of its own."""

    def __init__(self, site: Site, padding: Padding) -> None:
        self.site, self.padding = site, padding
        images, height, width, channels = site.input.shape
        self.type = site.input.with_shape(
            images, height + sum(padding.height), width + sum(padding.width), channels
        )
        source = site.places[str(site.node.inputs[0])]
        dtype = source.dtype if source.scale is None else DType.F32
        self.place = own_place("", Layout.SLICED, self.type, Stored(dtype))
        elements = storage_elements(Layout.SLICED, self.type)
        self.scratch = site.scratch("padded", dtype, elements)

    def view(self, site: Site, kernel: Kernel, writable: bool = False) -> View:
        """The copy, as a kernel sees it."""
        pointer = kernel.pointer("src", self.place.dtype, self.scratch, writable)
        return View(kernel, pointer, self.type, self.place)

    def write(self) -> None:
        """The kernel that copies."""
        kernel = self.site.kernel("pad_input")
        source, target = self.site.read(kernel, 0), self.view(self.site, kernel, writable=True)
        for pixel, slice_ in plain_grid(kernel, self.site.device, target):
            image, y, x = target.coordinates(pixel)
            y = kernel.let(y - self.padding.top, "y")
            x = kernel.let(x - self.padding.left, "x")
            inside = (y >= 0) & (y < source.axis(1)) & (x >= 0) & (x < source.axis(2))
            place = kernel.let(source.pixel([image, y, x]), "from")
            target.store(pixel, slice_, source.load(place, slice_, inside))

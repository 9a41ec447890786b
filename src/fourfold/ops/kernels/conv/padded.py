"""A zero-padded copy of a convolution's input, for CPUs.

A CPU work-item reads a run of pixels for each filter tap. Checking every pixel near an edge costs
far more than a copy with zeros around it.
"""

from __future__ import annotations

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import Expression
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.location import Layout, Location, Stored, own_location, storage_elements
from fourfold.codegen.view import View
from fourfold.ops.base.window import Padding
from fourfold.ops.kernels.grid import plain_grid
from fourfold.types import DType

Spot = tuple[Expression, Expression, Expression]  # source pixel, target pixel, slice


class PaddedInput:
    """The first input of a node, copied to scratch memory by a separate kernel."""

    title = "pad_input"

    def __init__(self, context: NodeContext, padding: Padding) -> None:
        self.context, self.padding = context, padding
        images, height, width, channels = context.input.shape
        self.type = context.input.with_shape(
            images, height + sum(padding.height), width + sum(padding.width), channels
        )
        self.stored = self._stored(context.locations[str(context.node.inputs[0])])
        self.location = own_location("", Layout.SLICED, self.type, self.stored)
        elements = storage_elements(Layout.SLICED, self.type)
        self.scratch = context.scratch("padded", self.stored.dtype, elements)

    def _stored(self, source: Location) -> Stored:
        """Return the storage of the copy."""
        return Stored(DType.F32 if source.converts else source.dtype)

    def view(self, context: NodeContext, kernel: Kernel, writable: bool = False) -> View:
        """Return a kernel's view of the copy."""
        pointer = kernel.pointer("src", self.location.dtype, self.scratch, writable)
        return View(kernel, pointer, self.type, self.location)

    def write(self) -> None:
        """Write the kernel that copies."""
        kernel = self.context.kernel(self.title)
        source, target = (
            self.context.read(kernel, 0),
            self.view(self.context, kernel, writable=True),
        )
        for pixel, slice_ in plain_grid(kernel, self.context.device, target):
            image, y, x = target.coordinates(pixel)
            y = kernel.let(y - self.padding.top, "y")
            x = kernel.let(x - self.padding.left, "x")
            inside = (y >= 0) & (y < source.axis(1)) & (x >= 0) & (x < source.axis(2))
            source_pixel = kernel.let(source.pixel([image, y, x]), "from")
            self._copy(source, target, (source_pixel, pixel, slice_), inside)

    def _copy(self, source: View, target: View, at: Spot, inside: Expression) -> None:
        source_pixel, pixel, slice_ = at
        target.store(pixel, slice_, source.load(source_pixel, slice_, inside))

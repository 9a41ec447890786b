"""Base of the kernels that copy pixels and weights for matrix units to local memory in batches."""

from __future__ import annotations

from fourfold.kernel.context import NodeContext
from fourfold.kernel.expression import Expression, const, minimum
from fourfold.kernel.location import Layout
from fourfold.kernels.matrix.convolution import MatrixConvolution
from fourfold.kernels.matrix.feed import WindowFeed, bind_base
from fourfold.types import DType


def refuses_copies(context: NodeContext) -> str | None:
    """Return why pixels cannot be copied in their memory layout, or None."""
    if not context.capabilities.async_copies:
        return f"{context.capabilities.language} has no asynchronous copies"
    source = context.locations[str(context.node.inputs[0])]
    if source.dtype is not DType.F16 or source.layout is not Layout.SLICED:
        return "its input is not stored as fp16 in slices"
    return (
        "its fp32 input is multiplied in two fp16 parts" if context.options.keeps_values else None
    )


class PrefetchingConvolution(MatrixConvolution):
    """A convolution in which each work-item copies the inputs of a fixed pixel."""

    window: WindowFeed

    def _aim_at(self, pixel: Expression) -> None:
        """Find where the window of a pixel starts; beyond the end, that of the last pixel."""
        kernel = self.kernel
        last = kernel.size("last_pixel", self.feed.work.pixels - 1)
        pixel = kernel.let(minimum(pixel, last), "pixel")
        self.base = bind_base(kernel, self.window.taps, pixel)

    def _copy(self, batch: Expression, buffer: Expression) -> None:
        """Copy the pixels and weights of a batch to one of the buffers."""
        self._copy_pixels(batch, buffer)
        self._copy_weights(batch, buffer)

    def _copy_pixels(self, batch: Expression, buffer: Expression) -> None:
        raise NotImplementedError

    def _copy_weights(self, batch: Expression, buffer: Expression) -> None:
        raise NotImplementedError

    def _under(self, tap: Expression) -> tuple[Expression, Expression]:
        """Return the input pixel under a tap of the window, and whether it exists."""
        kernel, taps = self.kernel, self.window.taps
        row = kernel.let(tap // taps.count[1], "down")
        column = kernel.let(tap - row * taps.count[1], "across")
        pixel, inside = taps.find(self.base, row, column)
        pixel = kernel.let(pixel, "from")
        return pixel, const(True) if inside is None else kernel.let(inside, "inside")

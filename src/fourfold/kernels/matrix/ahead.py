"""What kernels share that copy pixels and weights for matrix units to local memory, in batches."""

from __future__ import annotations

from fourfold.kernel.context import NodeContext
from fourfold.kernel.expression import Expression, const, minimum
from fourfold.kernel.location import Layout
from fourfold.kernels.matrix.convolution import MatrixConvolution
from fourfold.kernels.matrix.feed import WindowFeed, base_of
from fourfold.types import DType


def refuses_copies(context: NodeContext) -> str | None:
    """Why pixels cannot be copied as they lie in memory, or None."""
    if not context.capabilities.async_copies:
        return f"{context.capabilities.language} has no copies that run by themselves"
    source = context.locations[str(context.node.inputs[0])]
    if source.dtype is not DType.F16 or source.layout is not Layout.SLICED:
        return "its input is not in slices of halves"
    return "its input is multiplied in two parts" if context.options.keeps_values else None


class AheadConvolution(MatrixConvolution):
    """One convolution being written whose work-items copy for one pixel each, all along."""

    window: WindowFeed

    def _aim_at(self, pixel: Expression) -> None:
        """Find where the window of a pixel begins, of the last one where there is none."""
        kernel = self.kernel
        last = kernel.size("last_pixel", self.feed.work.pixels - 1)
        pixel = kernel.let(minimum(pixel, last), "pixel")
        self.base = base_of(kernel, self.window.taps, pixel)

    def _copy(self, batch: Expression, buffer: Expression) -> None:
        """All that the products of a batch need, to one of the buffers."""
        self._copy_pixels(batch, buffer)
        self._copy_weights(batch, buffer)

    def _copy_pixels(self, batch: Expression, buffer: Expression) -> None:
        raise NotImplementedError

    def _copy_weights(self, batch: Expression, buffer: Expression) -> None:
        raise NotImplementedError

    def _under(self, tap: Expression) -> tuple[Expression, Expression]:
        """What lies under a tap of the window: where it is, and whether it is."""
        kernel, taps = self.kernel, self.window.taps
        row = kernel.let(tap // taps.count[1], "down")
        column = kernel.let(tap - row * taps.count[1], "across")
        place, inside = taps.find(self.base, row, column)
        place = kernel.let(place, "from")
        return place, const(True) if inside is None else kernel.let(inside, "inside")

"""A copy of a convolution's input as bytes in slices, with what stands for zero around it."""

from __future__ import annotations

from fourfold.kernel.context import NodeContext
from fourfold.kernel.expression import Expression, const, guarded, lift, load, vector
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.location import Layout, Location, Stored
from fourfold.kernel.view import View
from fourfold.kernels.conv.padded import PaddedInput, Spot
from fourfold.kernels.grid import group_for
from fourfold.kernels.quantised.convolution import is_in_words, read_words, word_of
from fourfold.types import DType


class PaddedBytes(PaddedInput):
    """The copy, for kernels that read the bytes of a slice as one word."""

    title = "pad_bytes"

    def _stored(self, source: Location) -> Stored:
        """Signed bytes become unsigned ones."""
        self.lowest = 128 if source.dtype is DType.I8 else 0
        return Stored(DType.U8, 1.0, source.zero_point + self.lowest)

    def view(self, context: NodeContext, kernel: Kernel, writable: bool = False) -> View:
        by_words = is_in_words(context) or not writable
        dtype = DType.I32 if by_words else DType.U8
        pointer = kernel.pointer("dst" if writable else "src", dtype, self.scratch, writable)
        return View(kernel, pointer, self.type, self.location)

    def write(self) -> None:
        if is_in_words(self.context):
            self._write_lines()
        else:
            super().write()

    def _write_lines(self) -> None:
        """One line of a slice a work-item, word by word."""
        kernel, (batch, height, width, _) = self.context.kernel("pad_words"), self.type.shape
        source, target = (
            read_words(self.context, kernel),
            self.view(self.context, kernel, writable=True),
        )
        counts = (batch * height, self.type.slices)
        line, slice_ = kernel.ids(*counts, local=group_for(self.context.device, *counts))
        image, row = target.line_coordinates(line)
        y, left = kernel.let(row - self.padding.top, "y"), self.padding.left
        to = kernel.let(slice_ * target.pitch + line * target.axis(2), "to")
        zero = kernel.size("zeros", word_of(self.stored.zero_point))
        stop = kernel.let(source.axis(2) + left, "stop")
        with kernel.when((y >= 0) & (y < source.axis(1))) as inside:
            start = (image * source.axis(1) + y) * source.axis(2) - left
            near = kernel.shifted(source.pointer, slice_ * source.pitch + start, 1, "near")
            for number in range(left):
                kernel.store(target.pointer, to + number, zero)
            with kernel.loop(stop, left, title="x") as x:
                kernel.store(target.pointer, to + x, load(near, x, "int"))
            with kernel.loop(kernel.size("width", width), stop, title="x") as x:
                kernel.store(target.pointer, to + x, zero)
        assert inside is not None
        with kernel.otherwise(inside), kernel.loop(target.axis(2), title="x") as x:
            kernel.store(target.pointer, to + x, zero)

    def _copy(self, source: View, target: View, at: Spot, inside: Expression) -> None:
        place, pixel, slice_ = at
        value = guarded(inside, self._lanes(source, place, slice_), self.stored.zero_point)
        source.kernel.store(target.pointer, target.index(pixel, slice_), value)

    def _lanes(self, source: View, place: Expression, slice_: Expression) -> Expression:
        """Four channels, each read alone."""
        lanes: list[Expression] = []
        channels, sliced = source.type.channels, source.location.layout is Layout.SLICED
        for lane in range(4):
            index = source.corner(place) + source.step(0, slice_) + lane * source.apart
            value = load(source.pointer, index, "int") + self.lowest
            if channels < 4 and not sliced:
                value = value if lane < channels else const(0)
            elif channels % 4 and not sliced:
                value = guarded(lift(slice_) * 4 + lane < source.channels, value)
            lanes.append(value)
        return vector(*lanes)

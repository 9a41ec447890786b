"""Padded copies of a convolution's input: with zeros for CPUs, or as bytes with the zero point.

A CPU work-item reads a run of pixels for each filter tap. Checking every pixel near an edge costs
far more than a copy with zeros around it.
"""

from __future__ import annotations

from dataclasses import replace

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import Expression, Pointer, const, guarded, lift, load, vector
from fourfold.codegen.intrinsics import bit_and, bit_or, shift_left, shift_right
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.location import Layout, Location, Stored, own_location, storage_elements
from fourfold.codegen.view import View
from fourfold.ops.base.window import Padding
from fourfold.ops.kernels.grid import independent_group, plain_grid
from fourfold.ops.kernels.quantized.convolution import is_in_words, read_words, repeat_byte
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


RGB_RUN = 4  # pixels of three bytes that fill three words


class PaddedBytes(PaddedInput):
    """The padded copy, for kernels that read the bytes of a slice as one word."""

    title = "pad_bytes"

    def _stored(self, source: Location) -> Stored:
        """Return the storage of the copy: signed bytes become unsigned."""
        self.lowest = 128 if source.dtype is DType.I8 else 0
        return Stored(DType.U8, 1.0, source.zero_point + self.lowest)

    def view(self, context: NodeContext, kernel: Kernel, writable: bool = False) -> View:
        by_words = is_in_words(context) or self.is_rgb or not writable
        dtype = DType.I32 if by_words else DType.U8
        pointer = kernel.pointer("dst" if writable else "src", dtype, self.scratch, writable)
        return View(kernel, pointer, self.type, self.location)

    def write(self) -> None:
        if is_in_words(self.context):
            kernel = self.context.kernel("pad_words")
            self._write_lines(kernel, read_words(self.context, kernel))
        elif self.is_rgb:
            kernel = self.context.kernel("pad_rgb")
            self._write_lines(kernel, self._read_rgb(kernel))
        else:
            super().write()

    @property
    def is_rgb(self) -> bool:
        """True if pixels of three bytes fill whole words of each line, on a CPU."""
        source, (_, _, width, channels) = self._source, self.context.input.shape
        rows = source.layout is Layout.ROWS and source.pitch == channels == 3 and not source.plane
        fits = width % RGB_RUN == 0 and source.offset % 4 == 0 and source.dtype is DType.U8
        return rows and fits and self.context.device.is_cpu and not is_in_words(self.context)

    @property
    def _source(self) -> Location:
        return self.context.locations[str(self.context.node.inputs[0])]

    def _read_rgb(self, kernel: Kernel) -> View:
        words = replace(self._source, dtype=DType.I32, offset=self._source.offset // 4)
        pointer = kernel.pointer("src", DType.I32, words)
        return View(kernel, pointer, self.context.input, self._source)

    def _write_lines(self, kernel: Kernel, source: View) -> None:
        """Copy one line of a slice per work-item, word by word."""
        batch, height, width, _ = self.type.shape
        target = self.view(self.context, kernel, writable=True)
        lines, slices = batch * height, self.type.slices
        group = independent_group(self.context.device, lines, slices)
        line, slice_ = kernel.ids(lines, slices, local=group)
        image, row = target.line_coordinates(line)
        y, left = kernel.let(row - self.padding.top, "y"), self.padding.left
        to = kernel.let(slice_ * target.pitch + line * target.axis(2), "to")
        zero = kernel.size("zeros", repeat_byte(self.stored.zero_point))
        stop = kernel.let(source.axis(2) + left, "stop")
        with kernel.when((y >= 0) & (y < source.axis(1))) as inside:
            near = self._near(source, slice_, image * source.axis(1) + y)
            for number in range(left):
                kernel.store(target.pointer, to + number, zero)
            self._copy_line(target, near, to, stop)
            with kernel.loop(kernel.size("width", width), stop, title="x") as x:
                kernel.store(target.pointer, to + x, zero)
        assert inside is not None
        with kernel.otherwise(inside), kernel.loop(target.axis(2), title="x") as x:
            kernel.store(target.pointer, to + x, zero)

    def _near(self, source: View, slice_: Expression, line: Expression) -> Pointer:
        """Return a pointer to a line; in slices, to where its padding would start."""
        kernel = source.kernel
        if self.is_rgb:
            words = kernel.size("words", self.context.input.shape[2] * 3 // 4)
            return kernel.shifted(source.pointer, line * words, 1, "near")
        start = line * source.axis(2) - self.padding.left
        return kernel.shifted(source.pointer, slice_ * source.pitch + start, 1, "near")

    def _copy_line(self, target: View, near: Pointer, to: Expression, stop: Expression) -> None:
        kernel, left = target.kernel, self.padding.left
        if not self.is_rgb:
            with kernel.loop(stop, left, title="x") as x:
                kernel.store(target.pointer, to + x, load(near, x, "int"))
            return
        fours = kernel.size("fours", self.context.input.shape[2] // RGB_RUN)
        with kernel.loop(fours, title="four") as four:
            words = [kernel.let(load(near, four * 3 + part, "int"), "word") for part in range(3)]
            for step, pixel in enumerate(_pixels_of(*words)):
                kernel.store(target.pointer, to + (four * RGB_RUN + (left + step)), pixel)

    def _copy(self, source: View, target: View, at: Spot, inside: Expression) -> None:
        source_pixel, pixel, slice_ = at
        value = guarded(inside, self._lanes(source, source_pixel, slice_), self.stored.zero_point)
        source.kernel.store(target.pointer, target.index(pixel, slice_), value)

    def _lanes(self, source: View, pixel: Expression, slice_: Expression) -> Expression:
        """Load four channels, one by one."""
        lanes: list[Expression] = []
        channels, sliced = source.type.channels, source.location.layout is Layout.SLICED
        for lane in range(4):
            index = source.corner(pixel) + source.step(0, slice_) + lane * source.apart
            value = load(source.pointer, index, "int") + self.lowest
            if channels < 4 and not sliced:
                value = value if lane < channels else const(0)
            elif channels % 4 and not sliced:
                value = guarded(lift(slice_) * 4 + lane < source.channels, value)
            lanes.append(value)
        return vector(*lanes)


def _pixels_of(a: Expression, b: Expression, c: Expression) -> list[Expression]:
    """Unpack three words to four pixels of three bytes, one word each."""
    words = (
        a,
        bit_or(bit_and(shift_right(a, 24), 0xFF), shift_left(b, 8)),
        bit_or(bit_and(shift_right(b, 16), 0xFFFF), shift_left(c, 16)),
        shift_right(c, 8),
    )
    return [bit_and(word, 0xFFFFFF) for word in words]

"""View: a kernel's access to a tensor. It handles layout, bounds and conversion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fourfold.codegen.encoding import ByteRounding, make_encoding
from fourfold.codegen.expression import (
    Expression,
    Operand,
    Pointer,
    const,
    convert,
    guarded,
    lift,
    vector,
    where,
)
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.location import Layout, Location
from fourfold.types import DType, Shape, TensorType


class Addresses:
    """Sizes and element positions of one tensor.

    `pixel` counts all axes but the last, `slice` counts groups of four channels.
    """

    def __init__(self, kernel: Kernel, pointer: Pointer, type: TensorType, at: Location) -> None:
        self.kernel, self.pointer, self.type, self.location = kernel, pointer, type, at
        # coordinates of pixels that were computed before
        self.known: dict[Expression, list[Expression]] = {}
        self.fixed = False  # write axis sizes as constants, for kernels that divide by them

    @property
    def pixels(self) -> Expression:
        return self.kernel.size(f"{self.pointer.name}_pixels", self.type.pixels)

    @property
    def slices(self) -> Expression:
        return self.kernel.size(f"{self.pointer.name}_slices", self.type.slices)

    @property
    def channels(self) -> Expression:
        return self.kernel.size(f"{self.pointer.name}_channels", self.type.channels)

    @property
    def pitch(self) -> Expression:
        if self.location.pitch < 4 or self.location.channels:
            return const(self.location.pitch)
        return self.kernel.size(f"{self.pointer.name}_pitch", self.location.pitch)

    @property
    def apart(self) -> Expression:
        """Distance between two neighbouring channels of a slice, in elements."""
        plane = self.location.plane
        if not plane or self.type.channels < 4 or self.location.image:
            return const(plane or 1)  # a constant, because kernels divide by it
        return self.kernel.size(f"{self.pointer.name}_plane", plane)

    @property
    def whole(self) -> bool:
        """True if four channels can always be read and written at once."""
        sliced = self.location.layout is Layout.SLICED
        rows = self.type.channels % 4 == 0 or bool(self.location.channels)
        return sliced or (self.location.aligned and rows)

    def axis(self, index: int) -> Expression:
        """Return the size of one axis."""
        if self.fixed:
            return const(self.type.shape[index])
        return self.kernel.size(f"{self.pointer.name}_axis{index}", self.type.shape[index])

    def coordinates(self, pixel: Expression) -> list[Expression]:
        """Return the position of a pixel along each axis but the last."""
        coordinates = self.known.get(pixel)
        return self._split(pixel, self.type.shape[:-1]) if coordinates is None else coordinates

    def line_coordinates(self, line: Expression) -> list[Expression]:
        """Return the position of a line of pixels along each axis but the last two."""
        return [
            self.kernel.let(position, "at") for position in self._split(line, self.type.shape[:-2])
        ]

    def _split(self, number: Expression, leading: Shape) -> list[Expression]:
        positions: list[Expression] = []
        remaining = number
        for index in range(len(leading) - 1, -1, -1):
            outermost = all(size == 1 for size in leading[:index])
            size = self.axis(index)
            positions.insert(
                0, remaining if outermost and leading[index] != 1 else remaining % size
            )
            remaining = remaining // size
            if index and leading[index] != 1:
                remaining = self.kernel.let(remaining, "rest") if not outermost else const(0)
        return positions

    def pixel(self, coordinates: Sequence[Operand]) -> Expression:
        """Return the number of the pixel at these coordinates (all axes but the last)."""
        index: Expression = const(0)
        for axis, position in enumerate(coordinates):
            index = index * self.axis(axis) + position
        return index

    def corner(self, pixel: Operand) -> Expression:
        """Return the offset of a pixel in elements. Add `step` and a lane to reach its channels."""
        corner = lift(pixel) * (4 if self.location.layout is Layout.SLICED else self.pitch)
        if not self.location.image:
            return corner
        return lift(pixel) // self.apart * (self.location.image - self.location.plane) + corner

    def step(self, pixels: Operand, slice_: Operand) -> Expression:
        """Return the distance to a slice of another pixel of the same image, in elements."""
        if self.location.layout is Layout.SLICED:
            return (lift(slice_) * self.pitch + pixels) * 4
        return lift(pixels) * self.pitch + lift(slice_) * (4 * self.apart)

    def start(self, pixel: Operand, slice_: Operand) -> Expression:
        """Return the offset of a slice of a pixel, in elements."""
        if self.location.image:
            return self.corner(pixel) + self.step(0, slice_)
        return self.step(pixel, slice_)

    def index(self, pixel: Operand, slice_: Operand) -> Expression:
        """Return the index of four channels as a vector, for tensors that are read by vectors."""
        if self.location.layout is not Layout.SLICED:
            return lift(pixel) * (self.pitch // 4) + slice_
        run = self.kernel.run
        steps = None if run is None or slice_ is not run.slice else run.steps(lift(pixel))
        if run is None or steps is None:
            return lift(slice_) * self.pitch + pixel
        if self.pointer.name not in run.starts:
            start = lift(slice_) * self.pitch + run.pixel
            run.starts[self.pointer.name] = self.kernel.let(start, "at")
        return run.starts[self.pointer.name] + steps


class Finish(Protocol):
    """The tail as a function from a result to the stored value.

    The value has four channels of `run` neighbouring pixels, or of one pixel in `slices`
    neighbouring slices.
    """

    def __call__(
        self,
        value: Expression,
        pixel: Expression,
        slice_: Expression,
        run: int,
        slices: int = 1,
    ) -> Expression: ...


def compute_kind(dtype: DType, real: str) -> str:
    """Return the kind in which kernels compute with elements of a dtype."""
    return real if dtype.is_float else "bool" if dtype is DType.BOOL else "int"


class View(Addresses):
    """A tensor as a kernel reads and writes it."""

    def __init__(self, kernel: Kernel, pointer: Pointer, type: TensorType, at: Location) -> None:
        super().__init__(kernel, pointer, type, at)
        self.kind = compute_kind(type.dtype, kernel.real)
        self.finish: Finish | None = None
        self.counting: ByteRounding | None = None  # rounding to bytes, for `store_four`
        self.steps = make_encoding(kernel, at, self.kind, pointer.writable)

    def load(
        self,
        pixel: Operand,
        slice_: Operand,
        inside: Expression | None = None,
        otherwise: float = 0,
    ) -> Expression:
        """Load four channels of a pixel; `otherwise` if `inside` is false."""
        if self.whole:
            value = self.four(pixel, slice_)
        else:
            value = vector(*(self._padded_lane(pixel, slice_, lane) for lane in range(4)))
        if inside is not None:
            value = guarded(inside, value, otherwise)
        return self.kernel.let(value, self.pointer.name + "_v")

    def four(self, pixel: Operand, slice_: Operand) -> Expression:
        """Load four channels at once; only valid if `whole`."""
        return self.steps.four(self.pointer, self.index(pixel, slice_))

    def four_near(self, near: Pointer, pixels: Operand) -> Expression:
        """Load four channels, some pixels after the one that a pointer was `shifted` to."""
        steps = 1 if self.location.layout is Layout.SLICED else self.pitch // 4
        return self.steps.four(near, lift(pixels) * steps)

    def lane(self, pixel: Operand, slice_: Operand, lane: int) -> Expression:
        """Load one channel of a slice alone. The caller must know that it exists."""
        return self.lane_near(self.pointer, self.start(pixel, slice_), lane)

    def lane_near(self, near: Pointer, corner: Expression, lane: int) -> Expression:
        """Load one channel through a pointer that was moved by a `step`."""
        if self.location.plane:
            return self.steps.element(near, corner, lane * self.apart)
        return self.steps.lane(near, corner, lane)

    def element(
        self, pixel: Operand, channel: Operand, inside: Expression | None = None
    ) -> Expression:
        """Load one channel of a pixel; the kernel computes the channel's index."""
        channel = lift(channel)
        if self.location.layout is Layout.SLICED:
            start, channel = (channel // 4 * self.pitch + pixel) * 4, channel % 4
        else:
            start = self.corner(pixel)
            channel = channel * self.apart if self.location.plane else channel
        value = self.steps.element(self.pointer, start, channel)
        return value if inside is None else guarded(inside, value)

    def store(self, pixel: Expression, slice_: Expression, value: Expression, run: int = 1) -> None:
        """Store four channels of `run` neighbouring pixels: apply the tail, then convert.

        Lanes beyond the last channel become zeros, or are not written if they do not exist.
        """
        value = self.finished(pixel, slice_, value, run)
        if run > 1:
            value = self.kernel.let(value, "result")
        self.put(pixel, slice_, value, run)

    def finished(
        self, pixel: Expression, slice_: Expression, value: Expression, run: int = 1
    ) -> Expression:
        """Return what `put` writes for a result: the tail is applied, and the value converted."""
        if self.finish is not None:
            value = self.finish(value, pixel, slice_, run)
        return self.steps.stored(convert(value, self.kind))

    def put(self, pixel: Expression, slice_: Expression, value: Expression, run: int = 1) -> None:
        """Store values that are already finished."""
        for step in range(run):
            self._store_four(pixel + step, slice_, value.part(step, 4))

    def _store_four(self, pixel: Expression, slice_: Expression, value: Expression) -> None:
        channels_in_last, slice_number = self.type.channels % 4, lift(slice_).number
        if self.type.channels < 4:
            slice_number = 0
        if slice_number is not None and 4 * slice_number + 4 <= self.type.channels:
            channels_in_last = 0
        if self.whole:
            value = (
                self._zero_beyond(value, slice_, channels_in_last) if channels_in_last else value
            )
            self.kernel.store(self.pointer, self.index(pixel, slice_), value)
            return
        value = self.kernel.let(value, "result")
        planes = self.location.plane
        start = self.kernel.let(self.start(pixel, slice_), "to") if planes else const(0)
        for lane in range(4):
            exists = (
                const(True) if channels_in_last == 0 else lift(slice_) * 4 + lane < self.channels
            )
            if slice_number is not None:
                exists = const(4 * slice_number + lane < self.type.channels)
            if exists.number is not None and not exists.number:
                continue
            with self.kernel.when(exists):
                index = start + lane * self.apart
                if not planes:
                    index = lift(pixel) * self.pitch + (lift(slice_) * 4 + lane)
                self.kernel.store(self.pointer, index, value.lane(lane))

    def _padded_lane(self, pixel: Operand, slice_: Operand, lane: int) -> Expression:
        channels = self.type.channels
        if channels < 4:
            return self.lane(pixel, slice_, lane) if lane < channels else const(0, self.kind)
        if channels % 4 == 0:
            return self.lane(pixel, slice_, lane)
        exists = lift(slice_) * 4 + lane < self.channels
        return guarded(exists, self.lane(pixel, slice_, lane))

    def _zero_beyond(
        self, value: Expression, slice_: Expression, channels_in_last: int
    ) -> Expression:
        value = self.kernel.let(value, "result")
        zero = const(self.location.zero_point, value.kind)
        masked = vector(
            *(value.lane(lane) if lane < channels_in_last else zero for lane in range(4))
        )
        return where(lift(slice_).equals(self.slices - 1), masked, value)

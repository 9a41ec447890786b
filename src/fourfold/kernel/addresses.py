"""Expressions that compute the addresses of a tensor's elements."""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.kernel.expression import Expression, Operand, Pointer, const, lift
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.location import Layout, Location
from fourfold.types import Shape, TensorType


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

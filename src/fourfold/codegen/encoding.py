"""Encodings of real numbers in memory: as they are, quantized, or as bytes of pixels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

import numpy as np

from fourfold.codegen.expression import (
    Expression,
    Operand,
    Pointer,
    const,
    convert,
    load,
    round_even,
    vector,
    where,
)
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.location import Channel, Location

BYTES = 256


class Steps:
    """Encoding of real numbers at a location, quantized if the location has a scale."""

    def __init__(self, kernel: Kernel, location: Location, kind: str, writable: bool) -> None:
        self._kernel, self._location, self._kind = kernel, location, kind
        self._counts, self._writable = location.scale is not None, writable

    @cached_property
    def _zero(self) -> Expression:
        return self._kernel.number("zero", float(self._location.zero_point))

    @cached_property
    def _factor(self) -> Expression:
        scale = float(self._location.scale or 1.0)
        return self._kernel.number("scale", 1 / scale if self._writable else scale)

    def real(self, stored: Expression) -> Expression:
        """Return (stored - zero point) * scale."""
        if not self._counts:
            return stored
        return convert((stored - self._zero) * self._factor, self._kind)

    def stored(self, real: Expression) -> Expression:
        """Return the quantized form of a number in range; with scale 1, of an integer."""
        if not self._counts:
            return real
        steps = real if self._location.scale == 1.0 else round_even(real * self._factor)
        return convert(steps + self._zero if self._location.zero_point else steps, "int")

    def four(self, pointer: Pointer, index: Operand) -> Expression:
        """Load four channels at once."""
        return self.real(load(pointer, index, self._kind, 4))

    def lane(self, pointer: Pointer, start: Expression, lane: int) -> Expression:
        """Load a channel of the slice that starts at `start`."""
        return self.real(load(pointer, start + lane, self._kind))

    def element(self, pointer: Pointer, start: Expression, channel: Expression) -> Expression:
        """Load a channel of the pixel at `start`; the kernel computes the channel's index."""
        return self.real(load(pointer, start + channel, self._kind))


class PixelEncoding(Steps):
    """Bytes of pixels; each channel has its own byte position, zero point and scale.

    The value of a byte is computed or, on a CPU, read from a `table` in the nearest cache, which is
    faster there.
    """

    def __init__(self, kernel: Kernel, location: Location, kind: str) -> None:
        super().__init__(kernel, location, kind, writable=False)
        self._parameters: dict[tuple[str, float], Expression] = {}
        self.table: Pointer | None = None

    def _number(self, title: str, value: float) -> Expression:
        """Return the kernel parameter for a number, the same one for equal numbers."""
        if (title, value) not in self._parameters:
            self._parameters[title, value] = self._kernel.number(title, value)
        return self._parameters[title, value]

    def _scaled(self, byte: Expression, channel: Channel) -> Expression:
        zero, scale = self._number("zero", channel.zero), self._number("scale", channel.scale)
        return convert((byte - zero) * scale, self._kind)

    def four(self, pointer: Pointer, index: Operand) -> Expression:
        """Load the channels of a pixel from one word, followed by zeros."""
        word, channels = load(pointer, index, "float", 4), self._location.channels
        zeros = [const(0.0, self._kind)] * (4 - len(channels))
        return vector(*(self._scaled(word.lane(one.byte), one) for one in channels), *zeros)

    def lane(self, pointer: Pointer, start: Expression, lane: int) -> Expression:
        if lane >= len(self._location.channels):
            return const(0.0, self._kind)
        channel = self._location.channels[lane]
        index = start + channel.byte
        if self.table is None:
            return self._scaled(load(pointer, index, "float"), channel)
        entry = load(pointer, index, "int") + lane * BYTES
        return convert(load(self.table, entry, "float"), self._kind)

    def element(self, pointer: Pointer, start: Expression, channel: Expression) -> Expression:
        *others, value = [self.lane(pointer, start, n) for n in range(len(self._location.channels))]
        for number in range(len(others) - 1, -1, -1):
            value = where(channel.equals(number), others[number], value)
        return value


def byte_table(channels: Sequence[Channel]) -> np.ndarray:
    """Return the value of every byte, per channel."""
    numbers = np.arange(BYTES, dtype=np.float32)
    return np.stack([(numbers - np.float32(c.zero)) * np.float32(c.scale) for c in channels])


def make_encoding(kernel: Kernel, location: Location, kind: str, writable: bool) -> Steps:
    if location.channels:
        return PixelEncoding(kernel, location, kind)
    return Steps(kernel, location, kind, writable)


class Rounding(Protocol):
    """Rounding to integers from low to high, the nearest to a number times `inverse`.

    Ties go to the even integer. With a `pivot`, which is the lowest integer, ties go up.
    """

    low: int
    high: int
    pivot: int | None

    @property
    def inverse(self) -> float: ...


class ByteRounding:
    """Rounding as a kernel computes it: byte 0 stands for the lowest integer."""

    def __init__(self, kernel: Kernel, rounding: Rounding) -> None:
        self._factor = kernel.number("inverse", rounding.inverse)
        self._shift: Expression | None = None
        self.zero: Expression | None = None
        if rounding.pivot is None:
            self.high = kernel.number("high", rounding.high)
            self.zero = kernel.size("nought", -rounding.low)
        else:
            self._shift = kernel.number("pivot", rounding.pivot)
            self.high = kernel.number("high", rounding.high - rounding.pivot)

    def ready(self, value: Expression) -> Expression:
        """Return the scaled and shifted value that the kernel rounds."""
        steps = value * self._factor
        return steps if self._shift is None else steps - self._shift

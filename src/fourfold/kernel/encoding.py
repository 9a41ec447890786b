"""How what lies in memory stands for real numbers: as it is, as steps, or as bytes of pixels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from fourfold.kernel.expression import (
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
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.location import Channel, Location

BYTES = 256


class Steps:
    """How what lies at a location stands for real numbers, where it counts steps of a scale."""

    def __init__(self, kernel: Kernel, place: Location, kind: str, writable: bool) -> None:
        self._kernel, self._place, self._kind = kernel, place, kind
        self._counts, self._writable = place.scale is not None, writable

    @cached_property
    def _zero(self) -> Expression:
        return self._kernel.number("zero", float(self._place.zero_point))

    @cached_property
    def _factor(self) -> Expression:
        scale = float(self._place.scale or 1.0)
        return self._kernel.number("scale", 1 / scale if self._writable else scale)

    def real(self, stored: Expression) -> Expression:
        """(stored - zero point) * scale."""
        if not self._counts:
            return stored
        return convert((stored - self._zero) * self._factor, self._kind)

    def stored(self, real: Expression) -> Expression:
        """The step next to a number, which must lie between the first and the last. Steps of one
        are made of whole numbers.
        """
        if not self._counts:
            return real
        steps = real if self._place.scale == 1.0 else round_even(real * self._factor)
        return convert(steps + self._zero if self._place.zero_point else steps, "int")

    def four(self, pointer: Pointer, index: Operand) -> Expression:
        """Four channels at once."""
        return self.real(load(pointer, index, self._kind, 4))

    def lane(self, pointer: Pointer, start: Expression, lane: int) -> Expression:
        """A channel of the slice that starts there."""
        return self.real(load(pointer, start + lane, self._kind))

    def element(self, pointer: Pointer, start: Expression, channel: Expression) -> Expression:
        """A channel of the pixel that starts there, its number computed in the kernel."""
        return self.real(load(pointer, start + channel, self._kind))


class PixelEncoding(Steps):
    """Bytes of pixels, each channel in a place and with a zero and a scale of its own.

    What each byte stands for is computed, or on a CPU, which would take longer for it than for a
    look into its nearest cache, found in a `table`.
    """

    def __init__(self, kernel: Kernel, place: Location, kind: str) -> None:
        super().__init__(kernel, place, kind, writable=False)
        self._known: dict[tuple[str, float], Expression] = {}
        self.table: Pointer | None = None

    def _number(self, title: str, value: float) -> Expression:
        """The same parameter for the same number."""
        if (title, value) not in self._known:
            self._known[title, value] = self._kernel.number(title, value)
        return self._known[title, value]

    def _scaled(self, byte: Expression, channel: Channel) -> Expression:
        zero, scale = self._number("zero", channel.zero), self._number("scale", channel.scale)
        return convert((byte - zero) * scale, self._kind)

    def four(self, pointer: Pointer, index: Operand) -> Expression:
        """The channels of a pixel out of one word, zeros behind them."""
        word, channels = load(pointer, index, "float", 4), self._place.channels
        zeros = [const(0.0, self._kind)] * (4 - len(channels))
        return vector(*(self._scaled(word.lane(one.byte), one) for one in channels), *zeros)

    def lane(self, pointer: Pointer, start: Expression, lane: int) -> Expression:
        if lane >= len(self._place.channels):
            return const(0.0, self._kind)
        channel = self._place.channels[lane]
        place = start + channel.byte
        if self.table is None:
            return self._scaled(load(pointer, place, "float"), channel)
        entry = load(pointer, place, "int") + lane * BYTES
        return convert(load(self.table, entry, "float"), self._kind)

    def element(self, pointer: Pointer, start: Expression, channel: Expression) -> Expression:
        *others, found = [self.lane(pointer, start, n) for n in range(len(self._place.channels))]
        for number in range(len(others) - 1, -1, -1):
            found = where(channel.equals(number), others[number], found)
        return found


def byte_table(channels: Sequence[Channel]) -> np.ndarray:
    """What every byte stands for, channel by channel."""
    numbers = np.arange(BYTES, dtype=np.float32)
    return np.stack([(numbers - np.float32(c.zero)) * np.float32(c.scale) for c in channels])


def make_encoding(kernel: Kernel, place: Location, kind: str, writable: bool) -> Steps:
    if place.channels:
        return PixelEncoding(kernel, place, kind)
    return Steps(kernel, place, kind, writable)

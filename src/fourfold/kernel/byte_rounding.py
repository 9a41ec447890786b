"""Rounding of real numbers to quantized bytes, sixteen at once."""

from __future__ import annotations

from typing import Protocol

from fourfold.kernel.expression import Expression
from fourfold.kernel.kernel import Kernel


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

"""How real numbers become the bytes that count them, where sixteen are rounded at once."""

from __future__ import annotations

from typing import Protocol

from fourfold.kernel.expression import Expression
from fourfold.kernel.kernel import Kernel


class Rounding(Protocol):
    """Whole numbers from low to high, the nearest to a number times `inverse`.

    Among two the even one is taken, or with a `pivot`, which is the lowest, the higher one.
    """

    low: int
    high: int
    pivot: int | None

    @property
    def inverse(self) -> float: ...


class ByteRounding:
    """A rounding as a kernel does it: byte nought stands for the lowest number."""

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
        """What is to be rounded for a number."""
        steps = value * self._factor
        return steps if self._shift is None else steps - self._shift

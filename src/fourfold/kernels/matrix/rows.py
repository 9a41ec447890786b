"""Order of the 16 pixels of a block: two in each of the eight lines of a warp."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from fourfold.kernel.expression import Expression, minimum, where
from fourfold.kernel.kernel import Kernel
from fourfold.types import Shape

_LINES = 8
Two = tuple[Expression, Expression]


class Rows(Protocol):
    """The two pixels of a line of a block."""

    def pixels(self, kernel: Kernel, block: Expression, line: Expression) -> Two:
        """Return the numbers of both; a missing one is beyond the last pixel."""

    def readable(self, kernel: Kernel, block: Expression, line: Expression) -> Two:
        """Return the numbers of both, clamped to pixels whose inputs can be read."""


@dataclass(frozen=True)
class InOrder:
    """Eight pixels, then the next eight."""

    count: int

    def pixels(self, kernel: Kernel, block: Expression, line: Expression) -> Two:
        upper = kernel.let(block * (2 * _LINES) + line, "pixel")
        return upper, upper + _LINES

    def readable(self, kernel: Kernel, block: Expression, line: Expression) -> Two:
        last = kernel.size("last_pixel", self.count - 1)
        upper, lower = self.pixels(kernel, block, line)
        return kernel.let(minimum(upper, last), "pixel"), kernel.let(minimum(lower, last), "pixel")


@dataclass(frozen=True)
class InPairs:
    """Eight pixels and the right neighbor of each, which shares most of its inputs.

    If the image width is odd, the last pixel of a line has a neighbor that does not exist.
    """

    shape: Shape

    @property
    def count(self) -> int:
        """Number of pixels, including neighbors that do not exist."""
        return 2 * self._pairs

    @property
    def _across(self) -> int:
        return -(-self.shape[2] // 2)

    @property
    def _pixels(self) -> int:
        return self.shape[0] * self.shape[1] * self.shape[2]

    @property
    def _pairs(self) -> int:
        return self.shape[0] * self.shape[1] * self._across

    def _found(self, kernel: Kernel, pair: Expression) -> Two:
        row = kernel.let(pair // self._across, "row")
        column = kernel.let((pair - row * self._across) * 2, "column")
        return kernel.let(row * self.shape[2] + column, "pixel"), column

    def pixels(self, kernel: Kernel, block: Expression, line: Expression) -> Two:
        upper, column = self._found(kernel, kernel.let(block * _LINES + line, "pair"))
        if self.shape[2] % 2 == 0:
            return upper, upper + 1
        return upper, where(column + 1 < self.shape[2], upper + 1, self._pixels)

    def readable(self, kernel: Kernel, block: Expression, line: Expression) -> Two:
        pair = kernel.let(minimum(block * _LINES + line, self._pairs - 1), "pair")
        upper, _ = self._found(kernel, pair)
        if self.shape[2] % 2 == 0:
            return upper, upper + 1
        return upper, minimum(upper + 1, self._pixels - 1)

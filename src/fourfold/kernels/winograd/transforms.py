"""Winograd transforms: fewer multiplications, at the price of additions before and after.

A tile of m x m outputs of a 3x3 filter g over inputs d is A'[(G g G') * (B' d B)]A, where ' is the
transpose. It takes (m + 2)^2 products per pair of channels instead of 9 m^2. Filters are
transformed when the plan is made, inputs once for all outputs, and sums over the channels once for
each output.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fourfold.kernel.context import NodeContext
from fourfold.kernel.expression import Expression
from fourfold.kernel.kernel import Kernel
from fourfold.kernels.conv.tile import ConvTile

Matrix = tuple[tuple[float, ...], ...]
FILTER = 3
MAX_HELD_INPUTS = 1 << 15  # transformed inputs that a work-item may hold
_TEXT = re.compile(r"F(\d) (apart|within) (.*)")


@dataclass(frozen=True)
class Transforms:
    """The matrices for tiles of one size; those of kernels as factors, the last one first."""

    filter: Matrix
    input: tuple[Matrix, ...]
    output: tuple[Matrix, ...]


TRANSFORMS = {
    2: Transforms(
        filter=((1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1)),
        input=(((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1)),),
        output=(((1, 1, 1, 0), (0, 1, -1, -1)),),
    ),
    4: Transforms(
        filter=(
            (1 / 4, 0, 0),
            (-1 / 6, -1 / 6, -1 / 6),
            (-1 / 6, 1 / 6, -1 / 6),
            (1 / 24, 1 / 12, 1 / 6),
            (1 / 24, -1 / 12, 1 / 6),
            (0, 0, 1),
        ),
        input=(
            (
                (1, 0, 0, 0, 0, 0),
                (0, 1, 1, 0, 0, 0),
                (0, 1, -1, 0, 0, 0),
                (0, 0, 0, 1, 1, 0),
                (0, 0, 0, 1, -1, 0),
                (0, 0, 0, 0, 0, 1),
            ),
            (
                (4, 0, -5, 0, 1, 0),
                (0, 0, -4, 0, 1, 0),
                (0, -4, 0, 1, 0, 0),
                (0, 0, -1, 0, 1, 0),
                (0, -2, 0, 2, 0, 0),
                (0, 4, 0, -5, 0, 1),
            ),
        ),
        output=(
            ((1, 1, 0, 1, 0, 0), (0, 0, 1, 0, 2, 0), (0, 1, 0, 4, 0, 0), (0, 0, 1, 0, 8, 1)),
            (
                (1, 0, 0, 0, 0, 0),
                (0, 1, 1, 0, 0, 0),
                (0, 1, -1, 0, 0, 0),
                (0, 0, 0, 1, 1, 0),
                (0, 0, 0, 1, -1, 0),
                (0, 0, 0, 0, 0, 1),
            ),
        ),
    ),
}


@dataclass(frozen=True)
class Form:
    """A kernel form: outputs of a tile along each axis, and the tile of a work-item.

    `within` transforms the inputs in the kernel that multiplies them.
    """

    size: int
    within: bool
    tile: ConvTile

    def __str__(self) -> str:
        return f"F{self.size} {'within' if self.within else 'apart'} {self.tile}"

    @staticmethod
    def parse(text: str | None) -> Form | None:
        """Parse the text of `str(form)`; None if it is not a form."""
        match = _TEXT.fullmatch(text or "")
        tile = None if match is None else ConvTile.parse(match[3])
        if match is None or tile is None or int(match[1]) not in TRANSFORMS:
            return None
        return Form(int(match[1]), match[2] == "within", tile)

    @property
    def reach(self) -> int:
        """Inputs of a tile along each axis."""
        return self.size + FILTER - 1

    @property
    def positions(self) -> int:
        return self.reach**2

    @property
    def panel(self) -> int:
        """Tiles that a work-group takes at once."""
        return self.tile.pixels * self.tile.local[0]


@dataclass(frozen=True)
class Tiling:
    """The tiles of an output: images, and rows and columns of tiles in each."""

    images: int
    rows: int
    columns: int

    @staticmethod
    def of(context: NodeContext, size: int) -> Tiling:
        images, height, width, _ = context.output.shape
        return Tiling(images, -(-height // size), -(-width // size))

    @property
    def count(self) -> int:
        return self.images * self.rows * self.columns


def transform_filters(weights: np.ndarray, size: int) -> np.ndarray:
    """Transform filters: [O,3,3,I] -> [O, positions, I]."""
    matrix = np.array(TRANSFORMS[size].filter)
    both = np.kron(matrix, matrix).astype(np.float32)
    filters: np.ndarray = both @ weights.reshape(weights.shape[0], FILTER**2, -1)
    return filters


def apply(
    kernel: Kernel, factors: Sequence[Matrix], values: Sequence[Expression]
) -> list[Expression]:
    """Multiply the factors by a column of values, without products by zero or one."""
    column = list(values)
    for matrix in reversed(factors):
        column = [_combine(kernel, row, column) for row in matrix]
    return column


def _combine(kernel: Kernel, row: Sequence[float], values: Sequence[Expression]) -> Expression:
    total: Expression | None = None
    for factor, value in sorted(zip(row, values, strict=True), key=lambda pair: -pair[0]):
        if factor:
            part = value if abs(factor) == 1 else value * float(abs(factor))
            if total is None:
                total = part if factor > 0 else -part
            else:
                total = total + part if factor > 0 else total - part
    assert total is not None
    return kernel.let(total, "t")

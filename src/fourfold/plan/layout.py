"""The arrangement of a constant's elements in memory, and constants in such an arrangement."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np

from fourfold.plan.stored_constants import arrange
from fourfold.types import DType, Shape


class ArrayLayout(NamedTuple):
    """How the elements of an array are arranged for a kernel.

    Each axis of `shape` is padded at its end and split into `factors`, the outer one first: a size
    of 20 with the factors (3, 8) is padded to 24. The factors of all axes, one after the other, are
    the dimensions of the padded array. `order` lists these dimensions as they are in memory.
    """

    shape: Shape
    factors: tuple[Shape, ...]
    order: tuple[int, ...]

    @staticmethod
    def plain(shape: Shape, padded: Shape | None = None) -> ArrayLayout:
        """Return the layout in row-major order, padded to another shape."""
        sizes = tuple((size,) for size in padded or shape)
        return ArrayLayout(shape, sizes, tuple(range(len(shape))))

    @property
    def padded(self) -> Shape:
        return tuple(map(prod, self.factors))

    @property
    def elements(self) -> int:
        """Number of elements in memory, including the padding."""
        return prod(self.padded)

    @property
    def dimensions(self) -> Shape:
        """The dimensions as they are in memory."""
        sizes = [size for factors in self.factors for size in factors]
        return tuple(sizes[number] for number in self.order)

    def arrange(self, array: np.ndarray) -> np.ndarray:
        """Return the elements of an array in this arrangement, as a view where possible."""
        return arrange(array, self.factors, self.order)

    def restore(self, arranged: np.ndarray) -> np.ndarray:
        """Return the array without its padding: the inverse of `arrange`."""
        inverse = np.argsort(self.order)
        padded = arranged.reshape(self.dimensions).transpose(inverse).reshape(self.padded)
        return np.ascontiguousarray(padded[tuple(map(slice, self.shape))])


class Arranged(NamedTuple):
    """A constant in the form that a kernel reads, and its layout.

    The layout may have smaller elements than the array: words of four bytes are laid out as bytes.
    """

    array: np.ndarray
    layout: ArrayLayout

    @staticmethod
    def of(array: np.ndarray, layout: ArrayLayout) -> Arranged:
        return Arranged(np.ascontiguousarray(layout.arrange(array)), layout)

    def astype(self, dtype: np.dtype) -> Arranged:
        return Arranged(self.array.astype(dtype, copy=False), self.layout)


class Piece(NamedTuple):
    """One constant of a plan: its first byte in the block of all constants, the type of its
    elements, and their layout.
    """

    start: int
    dtype: DType
    layout: ArrayLayout

    @property
    def bytes(self) -> int:
        return self.layout.elements * self.dtype.size

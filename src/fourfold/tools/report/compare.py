"""How far one array is from another, in the measures that people know."""

from __future__ import annotations

from dataclasses import dataclass
from math import log10, sqrt

import numpy as np

from fourfold.types import MAX_FLOAT16


@dataclass(frozen=True)
class Deviation:
    """Differences relative to the range of what was expected, and the usual other measures; counts
    of what is no number.
    """

    largest: float
    mean: float
    nan: int = 0
    infinite: int = 0
    beyond_half: int = 0  # expected numbers that a half cannot hold
    absolute: float = 0.0  # the largest difference as it is
    relative: float = 0.0  # the length of the difference over that of what was expected
    cosine: float = 1.0  # of the angle between the two, as vectors
    psnr: float = float("inf")  # peak signal to noise, in decibels
    differing: float = 0.0  # the share of elements that are not the same
    same_top: float = 1.0  # the share of rows whose largest element is in the same place

    @property
    def broken(self) -> bool:
        return bool(self.nan or self.infinite) or not np.isfinite(self.largest)


AT_ONCE = 2**17  # elements that are compared together
FAR = Deviation(
    *(float("inf"), float("inf")),
    absolute=float("inf"),
    relative=float("inf"),
    cosine=0.0,
    psnr=0.0,
    differing=1.0,
    same_top=0.0,
)


def deviation(ours: np.ndarray, theirs: np.ndarray) -> Deviation:
    """Ours beside theirs. Arrays of other shapes, or without numbers where theirs have, are far."""
    if ours.shape != theirs.shape:
        return FAR
    if not ours.size:
        return Deviation(0.0, 0.0)
    if theirs.dtype == object:  # text is the same or not
        apart = np.array([str(a) != str(b) for a, b in zip(ours.flat, theirs.flat, strict=True)])
        return Deviation(float(apart.max()), float(apart.mean()), differing=float(apart.mean()))
    found, width = Differences(), ours.shape[-1] if ours.ndim else 1
    mine, others = (array.reshape(-1, width) for array in (ours, theirs))
    count = max(1, AT_ONCE // width)
    for first in range(0, len(mine), count):  # all at once would not fit into caches
        found.add(mine[first : first + count], others[first : first + count])
    return found.deviation()


@dataclass
class Differences:
    """Two arrays of numbers beside each other, given part by part, each of whole rows."""

    far: bool = False  # of other shapes
    elements: int = 0
    finite: int = 0  # on both sides, as all that follows is
    rows: int = 0
    same_top: int = 0
    nan: int = 0
    infinite: int = 0
    beyond_half: int = 0
    differing: int = 0
    largest: float = 0.0
    low: float = float("inf")  # of what was expected
    high: float = float("-inf")
    apart: float = 0.0  # sums, of differences and of squares
    apart_squared: float = 0.0
    ours_squared: float = 0.0
    theirs_squared: float = 0.0
    products: float = 0.0

    def add(self, ours: np.ndarray, theirs: np.ndarray) -> None:
        """One more part of both."""
        if ours.shape != theirs.shape:
            self.far = True
            return
        a, b = ours.astype(np.float64, copy=False), theirs.astype(np.float64, copy=False)
        self._count(a, b)
        both = np.isfinite(a) & np.isfinite(b)
        if not both.all():
            self.nan += int((np.isnan(a) & ~np.isnan(b)).sum())
            self.infinite += int((np.isinf(a) & ~np.isinf(b)).sum())
            self.differing -= int((np.isnan(a) & np.isnan(b)).sum())
            a, b = a[both], b[both]
        if a.size:
            self._sum(a, b)

    def _count(self, a: np.ndarray, b: np.ndarray) -> None:
        self.elements += a.size
        self.differing += int(np.count_nonzero(a != b))
        if a.ndim and a.shape[-1] > 1:
            same = np.argmax(a, -1) == np.argmax(b, -1)
            self.rows, self.same_top = self.rows + same.size, self.same_top + int(same.sum())

    def _sum(self, a: np.ndarray, b: np.ndarray) -> None:
        """Of numbers that are finite."""
        apart, low, high = a - b, float(b.min()), float(b.max())
        np.abs(apart, out=apart)
        self.finite += a.size
        self.largest = max(self.largest, float(apart.max()))
        self.low, self.high = min(self.low, low), max(self.high, high)
        if max(-low, high) > MAX_FLOAT16:
            self.beyond_half += int((np.abs(b) > MAX_FLOAT16).sum())
        self.apart += float(apart.sum())
        self.apart_squared += _product(apart, apart)
        self.ours_squared += _product(a, a)
        self.theirs_squared += _product(b, b)
        self.products += _product(a, b)

    @property
    def reach(self) -> float:
        """From the least to the largest that was expected; how large it is where all are the same,
        and never zero.
        """
        return self.high - self.low or abs(self.high) or 1.0 if self.finite else 1.0

    @property
    def magnitude(self) -> float:
        """How large the largest number is that was expected."""
        return max(abs(self.low), abs(self.high)) if self.finite else 0.0

    def deviation(self) -> Deviation:
        """All measures of what was added."""
        if self.far:
            return FAR
        reach, finite = self.reach, max(self.finite, 1)
        return Deviation(
            largest=self.largest / reach,
            mean=self.apart / finite / reach,
            nan=self.nan,
            infinite=self.infinite,
            beyond_half=self.beyond_half,
            absolute=self.largest,
            relative=sqrt(self.apart_squared) / (sqrt(self.theirs_squared) or 1.0),
            cosine=self._cosine(),
            psnr=_decibels(reach**2, self.apart_squared / finite),
            differing=self.differing / max(self.elements, 1),
            same_top=self.same_top / self.rows if self.rows else 1.0,
        )

    def _cosine(self) -> float:
        lengths = sqrt(self.ours_squared) * sqrt(self.theirs_squared)
        if not lengths:
            return 1.0 if self.ours_squared == self.theirs_squared else 0.0
        return min(self.products / lengths, 1.0)


def _product(a: np.ndarray, b: np.ndarray) -> float:
    """Of two vectors. A library of linear algebra would start threads for so little."""
    return float(np.einsum("i,i->", a.ravel(), b.ravel()))


def _decibels(signal: float, noise: float) -> float:
    return 10 * log10(signal / noise) if noise else float("inf")

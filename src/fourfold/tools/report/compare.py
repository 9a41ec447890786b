"""Differences between two arrays in common measures."""

from __future__ import annotations

from dataclasses import dataclass
from math import log10, sqrt

import numpy as np

from fourfold.types import MAX_FLOAT16


@dataclass(frozen=True)
class Deviation:
    """Differences from expected values: relative to their range, and in other common measures.
    `nan` and `infinite` count elements that are finite only on the expected side.
    """

    largest: float
    mean: float
    nan: int = 0
    infinite: int = 0
    beyond_half: int = 0  # expected numbers outside the range of fp16
    absolute: float = 0.0  # largest absolute difference
    relative: float = 0.0  # norm of the difference divided by the norm of the expected values
    cosine: float = 1.0  # cosine similarity
    psnr: float = float("inf")  # peak signal to noise, in decibels
    differing: float = 0.0  # fraction of elements that are not equal
    same_top: float = 1.0  # fraction of rows whose largest element has the same index

    @property
    def broken(self) -> bool:
        return bool(self.nan or self.infinite) or not np.isfinite(self.largest)


CHUNK_ELEMENTS = 2**17  # elements that are compared at a time
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
    """Return the difference of `ours` from `theirs`; arrays of different shapes are `FAR`."""
    if ours.shape != theirs.shape:
        return FAR
    if not ours.size:
        return Deviation(0.0, 0.0)
    if theirs.dtype == object:  # texts are equal or not
        apart = np.array([str(a) != str(b) for a, b in zip(ours.flat, theirs.flat, strict=True)])
        return Deviation(float(apart.max()), float(apart.mean()), differing=float(apart.mean()))
    differences, width = Differences(), ours.shape[-1] if ours.ndim else 1
    mine, others = (array.reshape(-1, width) for array in (ours, theirs))
    count = max(1, CHUNK_ELEMENTS // width)
    for first in range(0, len(mine), count):  # chunks fit into caches
        differences.add(mine[first : first + count], others[first : first + count])
    return differences.deviation()


@dataclass
class Differences:
    """Running totals of the differences between two arrays, added in chunks of whole rows."""

    far: bool = False  # the shapes differ
    elements: int = 0
    finite: int = 0  # elements that are finite on both sides; the sums below are over these
    rows: int = 0
    same_top: int = 0
    nan: int = 0
    infinite: int = 0
    beyond_half: int = 0
    differing: int = 0
    largest: float = 0.0
    low: float = float("inf")  # range of the expected values
    high: float = float("-inf")
    apart: float = 0.0  # sums of differences and of squares
    apart_squared: float = 0.0
    ours_squared: float = 0.0
    theirs_squared: float = 0.0
    products: float = 0.0

    def add(self, ours: np.ndarray, theirs: np.ndarray) -> None:
        """Add a chunk of both arrays."""
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
        """Add finite numbers to the sums."""
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
        """Range of the expected values, or their magnitude if all are equal; never zero."""
        return self.high - self.low or abs(self.high) or 1.0 if self.finite else 1.0

    @property
    def magnitude(self) -> float:
        """Largest absolute value among the expected ones."""
        return max(abs(self.low), abs(self.high)) if self.finite else 0.0

    def deviation(self) -> Deviation:
        """Return all measures of the chunks added so far."""
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
    """Return the dot product. `einsum` is used because BLAS would start threads."""
    return float(np.einsum("i,i->", a.ravel(), b.ravel()))


def _decibels(signal: float, noise: float) -> float:
    return 10 * log10(signal / noise) if noise else float("inf")

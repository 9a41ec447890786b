"""How far one array is from another, in the measures that people know."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.types import LARGEST_HALF


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
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    both = np.isfinite(a) & np.isfinite(b)
    apart = np.abs(a[both] - b[both])
    reach = _reach(b[both])
    largest = float(apart.max(initial=0.0))
    return Deviation(
        largest=largest / reach,
        mean=float(apart.mean()) / reach if apart.size else 0.0,
        nan=int((np.isnan(a) & ~np.isnan(b)).sum()),
        infinite=int((np.isinf(a) & ~np.isinf(b)).sum()),
        beyond_half=int((np.abs(b[both]) > LARGEST_HALF).sum()),
        absolute=largest,
        relative=_relative(apart, b[both]),
        cosine=_cosine(a[both], b[both]),
        psnr=_psnr(apart, reach),
        differing=float(((a != b) & ~(np.isnan(a) & np.isnan(b))).mean()),
        same_top=_same_top(a, b),
    )


def apart_by_range(found: np.ndarray, exact: np.ndarray, tolerance: float) -> np.ndarray:
    """How far each number is from the exact one; up to 1 is tolerated. Integers have to be the
    same, and so has what is no number.
    """
    if found.dtype.kind != "f":
        return np.where(found == exact, 0.0, np.inf)
    real = np.isfinite(exact)
    same = ~real & ((found == exact) | (np.isnan(found) & np.isnan(exact)))
    allowed = tolerance * _reach(exact[real])
    with np.errstate(invalid="ignore"):
        apart = np.abs(found - exact) / allowed
    return np.where(same, 0.0, np.where(np.isnan(apart), np.inf, apart))


def _reach(expected: np.ndarray) -> float:
    """From the least to the largest; how large it is where all are the same, and never zero."""
    reach = float(np.ptp(expected)) if expected.size else 0.0
    return reach or float(np.abs(expected).max(initial=0.0)) or 1.0


def _relative(apart: np.ndarray, expected: np.ndarray) -> float:
    return _length(apart) / (_length(expected) or 1.0)


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    lengths = _length(a) * _length(b)
    if not lengths:
        return 1.0 if np.array_equal(a, b) else 0.0
    return min(float(np.sum(a * b)) / lengths, 1.0)


def _length(array: np.ndarray) -> float:
    """Of a vector. A library of linear algebra would start threads for so little."""
    return float(np.sqrt(np.sum(array * array)))


def _psnr(apart: np.ndarray, reach: float) -> float:
    noise = float(np.mean(apart**2)) if apart.size else 0.0
    return 10 * float(np.log10(reach**2 / noise)) if noise else float("inf")


def _same_top(a: np.ndarray, b: np.ndarray) -> float:
    if a.ndim == 0 or a.shape[-1] < 2:
        return 1.0
    return float((np.argmax(a, -1) == np.argmax(b, -1)).mean())

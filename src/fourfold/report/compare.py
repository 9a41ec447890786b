"""How far one array is from another: the largest and mean difference, NaN and overflow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.types import LARGEST_HALF


@dataclass(frozen=True)
class Deviation:
    """Differences relative to the range of what was expected; counts of what is no number."""

    largest: float
    mean: float
    nan: int = 0
    infinite: int = 0
    beyond_half: int = 0  # expected numbers that a half cannot hold

    @property
    def broken(self) -> bool:
        return bool(self.nan or self.infinite) or not np.isfinite(self.largest)


def deviation(ours: np.ndarray, theirs: np.ndarray) -> Deviation:
    """Ours beside theirs. Arrays of other shapes, or without numbers where theirs have, are far."""
    if ours.shape != theirs.shape:
        return Deviation(float("inf"), float("inf"))
    if not ours.size:
        return Deviation(0.0, 0.0)
    if theirs.dtype == object:  # text is the same or not
        apart = np.array([str(a) != str(b) for a, b in zip(ours.flat, theirs.flat, strict=True)])
        return Deviation(float(apart.max()), float(apart.mean()))
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    nan = int((np.isnan(a) & ~np.isnan(b)).sum())
    infinite = int((np.isinf(a) & ~np.isinf(b)).sum())
    both = np.isfinite(a) & np.isfinite(b)
    apart = np.abs(a[both] - b[both])
    reach = float(np.ptp(b[both])) if both.any() else 0.0
    reach = reach or float(np.abs(b[both]).max(initial=0.0)) or 1.0
    return Deviation(
        largest=float(apart.max(initial=0.0)) / reach,
        mean=float(apart.mean()) / reach if apart.size else 0.0,
        nan=nan,
        infinite=infinite,
        beyond_half=int((np.abs(b[both]) > LARGEST_HALF).sum()),
    )

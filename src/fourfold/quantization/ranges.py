"""Estimators of the range of a value, from many arrays that are seen one at a time.

minmax            the least and the largest number of all
moving-average    those of each array, averaged, the later ones counting more
percentile        without the few numbers that are furthest out
mse               where rounding and clamping together cost the least, in squares
entropy           where the rounded distribution tells the most of the true one (Kullback, Leibler)

The last three look at a histogram, which grows with what it sees: one pass is enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np

from fourfold.errors import InputError, nearest
from fourfold.quantization.grids import Range

ESTIMATORS = ("minmax", "moving-average", "percentile", "mse", "entropy")
PERCENTILE = 99.99
_HALF_BINS = 4096  # on either side of zero
_NEW_SHARE = 0.1  # of an average, what a new array has of it
_CANDIDATES = 96  # limits that are tried
_LEVELS = 256
_STEP_BINS = 16  # of the histogram, where all of it is half as wide as 256 steps
_INNER, _FAR = 99.999, 8  # how many times as far out as this percentile an outlier is


class RangeEstimator(Protocol):
    """Sees arrays of finite numbers, and then tells their range."""

    def add(self, array: np.ndarray) -> None: ...
    def range(self) -> Range: ...


@dataclass
class MinMax:
    """The least and the largest number of all arrays."""

    found: Range | None = None

    def add(self, array: np.ndarray) -> None:
        new = _limits(array)
        self.found = new if self.found is None else self.found.joined(new)

    def range(self) -> Range:
        return self.found or Range(0.0, 0.0)


@dataclass
class MovingAverage:
    """Least and largest numbers, averaged: one array that is out of the way counts little."""

    found: Range | None = None

    def add(self, array: np.ndarray) -> None:
        new, old = _limits(array), self.found
        if old is not None:
            pairs = zip(old, new, strict=True)
            new = Range(*(before + _NEW_SHARE * (now - before) for before, now in pairs))
        self.found = new

    def range(self) -> Range:
        return self.found or Range(0.0, 0.0)


@dataclass
class Histogram:
    """Counts in equal bins around zero, as wide as it takes to hold what was seen.

    Where a number lies beyond, pairs of bins become one until it fits; so nothing is ever lost.
    """

    choose: Callable[[Histogram], Range]
    reach: float = 0.0
    zeros: int = 0
    counts: np.ndarray = field(default_factory=lambda: np.zeros(2 * _HALF_BINS, np.int64))
    exact: MinMax = field(default_factory=MinMax)

    def add(self, array: np.ndarray) -> None:
        self.exact.add(array)
        self.zeros += array.size - int(np.count_nonzero(array))
        far = max(-self.exact.range().low, self.exact.range().high)
        if not self.reach:
            self.reach = far
        while self.reach < far:
            self._widen()
        if self.reach:
            self.counts += self._count(array)
        else:
            self.counts[_HALF_BINS] += array.size

    def _count(self, array: np.ndarray) -> np.ndarray:
        scaled = array.ravel() * np.float64(_HALF_BINS / self.reach) + _HALF_BINS
        places = np.minimum(scaled.astype(np.int64), 2 * _HALF_BINS - 1)
        return np.bincount(places, minlength=2 * _HALF_BINS)

    def _widen(self) -> None:
        pairs = self.counts.reshape(-1, 2).sum(1)
        self.counts = np.pad(pairs, _HALF_BINS // 2)
        self.reach *= 2

    @property
    def rounded_counts(self) -> np.ndarray:
        """Without the zeros, which no grid rounds: behind a relu they are most of all numbers."""
        counts = self.counts.copy()
        counts[_HALF_BINS] -= self.zeros
        return counts

    @property
    def edges(self) -> np.ndarray:
        """The borders of the bins, one more than there are bins."""
        return np.linspace(-self.reach, self.reach, 2 * _HALF_BINS + 1)

    @property
    def centres(self) -> np.ndarray:
        edges = self.edges
        centres: np.ndarray = (edges[1:] + edges[:-1]) / 2
        return centres

    def range(self) -> Range:
        whole = self.exact.range()
        if not self.reach:
            return whole
        found = self.choose(self)
        return Range(max(found.low, whole.low), min(found.high, whole.high))


def make_estimator(name: str) -> Callable[[], RangeEstimator]:
    """What makes the estimators of this name; 'percentile:99.9' says which percentile."""
    kind, _, number = name.partition(":")
    plain: dict[str, Callable[[], RangeEstimator]] = {
        "minmax": MinMax,
        "moving-average": MovingAverage,
        "mse": partial(Histogram, partial(_search, _squared_error)),
        "entropy": partial(Histogram, _most_telling),
    }
    if kind == "percentile":
        return partial(Histogram, partial(_percentile, _percent(number)))
    if kind not in plain or number:
        why = f"they are {', '.join(ESTIMATORS)}"
        raise InputError(f"there is no way {name!r} to find ranges", why, nearest(kind, ESTIMATORS))
    return plain[kind]


def _percent(text: str) -> float:
    try:
        percent = float(text) if text else PERCENTILE
    except ValueError:
        percent = 0.0
    if not 50 < percent <= 100:
        what, why = f"'percentile:{text}' is none", "it is more than 50 and at most 100"
        raise InputError(what, why, "write it as 'percentile:99.9'")
    return percent


def _limits(array: np.ndarray) -> Range:
    return Range(float(array.min()), float(array.max())) if array.size else Range(0.0, 0.0)


def _percentile(percent: float, histogram: Histogram) -> Range:
    return _without_furthest(percent, histogram.counts, histogram.edges)


def _without_furthest(percent: float, counts: np.ndarray, edges: np.ndarray) -> Range:
    """What leaves as many numbers out on either side as the percentile says."""
    total = np.concatenate([[0], np.cumsum(counts)]) / max(counts.sum(), 1)
    outside = (1 - percent / 100) / 2
    low = edges[np.searchsorted(total, outside, side="right") - 1]
    last = int(np.searchsorted(total, 1 - outside, side="left"))
    high = edges[min(last, len(edges) - 1)]
    return Range(float(low), float(high))


def _search(cost: Callable[[Histogram, Range], float], histogram: Histogram) -> Range:
    """The range of least cost: its two limits are drawn in by turns."""
    whole = histogram.exact.range()
    best = Range(min(whole.low, 0.0), max(whole.high, 0.0))
    least = cost(histogram, best)
    for high in (True, False, True, False):
        for candidate in _drawn_in(best, high):
            found = cost(histogram, candidate)
            if found < least:
                best, least = candidate, found
    return best


def _drawn_in(range_: Range, high: bool) -> Iterator[Range]:
    limit = range_.high if high else range_.low
    if limit == 0:
        return
    for part in range(1, _CANDIDATES):
        drawn = limit * (1 - part / _CANDIDATES)
        yield Range(range_.low, drawn) if high else Range(drawn, range_.high)


def _most_telling(histogram: Histogram) -> Range:
    """The range of least divergence among those that clamp both sides at the same distance."""
    whole = histogram.exact.range()

    def clamped(part: int) -> Range:
        limit = histogram.reach * (1 - part / _CANDIDATES)
        return Range(max(min(whole.low, 0.0), -limit), min(max(whole.high, 0.0), limit))

    ranges = [clamped(part) for part in range(_CANDIDATES)]
    return min(ranges, key=partial(_divergence, histogram, _bins_of_a_step(histogram)))


def _bins_of_a_step(histogram: Histogram) -> int:
    """How many bins about a step takes, of a range without the few outliers: a power of two."""
    inner = _without_furthest(_INNER, histogram.rounded_counts, histogram.edges)
    share = min(_FAR * max(-inner.low, inner.high) / histogram.reach, 1.0)
    return 1 << round(math.log2(max(share * _STEP_BINS, 1.0)))


def _squared_error(histogram: Histogram, range_: Range) -> float:
    """The mean square of what rounding to 256 numbers, and clamping to them, takes away."""
    step = (range_.high - range_.low) / (_LEVELS - 1)
    centres, counts = histogram.centres, histogram.rounded_counts
    beyond = centres - np.clip(centres, range_.low, range_.high)
    inside = beyond == 0
    return float((counts * beyond**2).sum() + counts[inside].sum() * step**2 / 12)


def _divergence(histogram: Histogram, merged: int, range_: Range) -> float:
    """How much is lost when the distribution, clamped to the range, is told in 256 numbers.

    They are compared with so many bins `merged`. In finer ones the shape of a peak that is
    narrower than a step would be lost as well, and a range win that has room for it alone.
    """
    if range_.high <= range_.low:
        return float("inf")
    centres = histogram.centres.reshape(-1, merged).mean(1)
    counts = histogram.rounded_counts.reshape(-1, merged).sum(1).astype(np.float64)
    inside = (centres >= range_.low) & (centres <= range_.high)
    kept = counts[inside]
    if kept.size < 2 or not kept.sum():
        return float("inf")
    true = kept.copy()
    true[0] += counts[: int(np.argmax(inside))].sum()
    true[-1] += counts[len(inside) - int(np.argmax(inside[::-1])) :].sum()
    step = (range_.high - range_.low) / (_LEVELS - 1)
    levels = np.rint((centres[inside] - range_.low) / step).astype(np.int64)
    sums = np.bincount(levels, kept, _LEVELS)
    filled = np.bincount(levels, kept > 0, _LEVELS)
    told = np.where(kept > 0, sums[levels] / np.maximum(filled[levels], 1), 0.0)
    told = np.maximum(told / told.sum(), 1e-12)
    true /= true.sum()
    seen = true > 0
    return float((true[seen] * np.log(true[seen] / told[seen])).sum())

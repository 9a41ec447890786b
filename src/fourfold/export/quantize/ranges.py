"""Estimators of the range of a value, from arrays that are seen one at a time.

minmax            the smallest and the largest number of all arrays
moving-average    the limits of each array, averaged, with more weight on later arrays
percentile        without the outermost numbers
mse               minimizes the squared error of rounding and clamping
entropy           minimizes the Kullback-Leibler divergence of the rounded distribution

The last three use a histogram that grows as needed, so one pass over the samples is enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np

from fourfold.errors import InputError, nearest
from fourfold.export.quantize.storage import Range

ESTIMATORS = ("minmax", "moving-average", "percentile", "mse", "entropy")
DEFAULT_PERCENTILE = 99.99
_HALF_BINS = 4096  # on either side of zero
_NEW_WEIGHT = 0.1  # of a new array in the moving average
_CANDIDATES = 96  # limits to try
_LEVELS = 256
_STEP_BINS = 16  # of the histogram, if all of it is half as wide as 256 steps
_INNER, _OUTLIER_FACTOR = 99.999, 8  # outliers lie beyond this multiple of the percentile


class RangeEstimator(Protocol):
    """Sees arrays of finite numbers and returns their range."""

    def add(self, array: np.ndarray) -> None: ...
    def range(self) -> Range: ...


@dataclass
class MinMax:
    """The smallest and the largest number of all arrays."""

    found: Range | None = None

    def add(self, array: np.ndarray) -> None:
        new = _limits(array)
        self.found = new if self.found is None else self.found.joined(new)

    def range(self) -> Range:
        return self.found or Range(0.0, 0.0)


@dataclass
class MovingAverage:
    """Moving average of the limits, so that one unusual array counts little."""

    found: Range | None = None

    def add(self, array: np.ndarray) -> None:
        new, old = _limits(array), self.found
        if old is not None:
            pairs = zip(old, new, strict=True)
            new = Range(*(before + _NEW_WEIGHT * (now - before) for before, now in pairs))
        self.found = new

    def range(self) -> Range:
        return self.found or Range(0.0, 0.0)


@dataclass
class Histogram:
    """Counts in equal bins around zero.

    If a number lies outside, pairs of bins are merged until it fits, so that no count is lost.
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
        bins = np.minimum(scaled.astype(np.int64), 2 * _HALF_BINS - 1)
        return np.bincount(bins, minlength=2 * _HALF_BINS)

    def _widen(self) -> None:
        pairs = self.counts.reshape(-1, 2).sum(1)
        self.counts = np.pad(pairs, _HALF_BINS // 2)
        self.reach *= 2

    @property
    def rounded_counts(self) -> np.ndarray:
        """Counts without exact zeros, which no grid rounds and which dominate after a relu."""
        counts = self.counts.copy()
        counts[_HALF_BINS] -= self.zeros
        return counts

    @property
    def edges(self) -> np.ndarray:
        """Borders of the bins, one more than there are bins."""
        return np.linspace(-self.reach, self.reach, 2 * _HALF_BINS + 1)

    @property
    def centres(self) -> np.ndarray:
        edges = self.edges
        centres: np.ndarray = (edges[1:] + edges[:-1]) / 2
        return centres

    def range(self) -> Range:
        exact = self.exact.range()
        if not self.reach:
            return exact
        chosen = self.choose(self)
        return Range(max(chosen.low, exact.low), min(chosen.high, exact.high))


def make_estimator(name: str) -> Callable[[], RangeEstimator]:
    """Return a factory of estimators; 'percentile:99.9' sets the percentile."""
    kind, _, number = name.partition(":")
    plain: dict[str, Callable[[], RangeEstimator]] = {
        "minmax": MinMax,
        "moving-average": MovingAverage,
        "mse": partial(Histogram, partial(_search, _squared_error)),
        "entropy": partial(Histogram, _least_divergence),
    }
    if kind == "percentile":
        return partial(Histogram, partial(_percentile, _percent(number)))
    if kind not in plain or number:
        why = f"estimators are {', '.join(ESTIMATORS)}"
        raise InputError(f"there is no range estimator {name!r}", why, nearest(kind, ESTIMATORS))
    return plain[kind]


def _percent(text: str) -> float:
    try:
        percent = float(text) if text else DEFAULT_PERCENTILE
    except ValueError:
        percent = 0.0
    if not 50 < percent <= 100:
        what, why = f"'percentile:{text}' is invalid", "it must be more than 50 and at most 100"
        raise InputError(what, why, "write it as 'percentile:99.9'")
    return percent


def _limits(array: np.ndarray) -> Range:
    return Range(float(array.min()), float(array.max())) if array.size else Range(0.0, 0.0)


def _percentile(percent: float, histogram: Histogram) -> Range:
    return _trim_tails(percent, histogram.counts, histogram.edges)


def _trim_tails(percent: float, counts: np.ndarray, edges: np.ndarray) -> Range:
    """Return the range that leaves out equally many numbers on both sides."""
    total = np.concatenate([[0], np.cumsum(counts)]) / max(counts.sum(), 1)
    outside = (1 - percent / 100) / 2
    low = edges[np.searchsorted(total, outside, side="right") - 1]
    last = int(np.searchsorted(total, 1 - outside, side="left"))
    high = edges[min(last, len(edges) - 1)]
    return Range(float(low), float(high))


def _search(cost: Callable[[Histogram, Range], float], histogram: Histogram) -> Range:
    """Return the range of minimum cost, moving its two limits inwards alternately."""
    limits = histogram.exact.range()
    best = Range(min(limits.low, 0.0), max(limits.high, 0.0))
    least = cost(histogram, best)
    for high in (True, False, True, False):
        for candidate in _narrower_ranges(best, high):
            candidate_cost = cost(histogram, candidate)
            if candidate_cost < least:
                best, least = candidate, candidate_cost
    return best


def _narrower_ranges(range_: Range, high: bool) -> Iterator[Range]:
    limit = range_.high if high else range_.low
    if limit == 0:
        return
    for part in range(1, _CANDIDATES):
        drawn = limit * (1 - part / _CANDIDATES)
        yield Range(range_.low, drawn) if high else Range(drawn, range_.high)


def _least_divergence(histogram: Histogram) -> Range:
    """Return the range of least divergence among those that clamp both sides at the same
    distance.
    """
    limits = histogram.exact.range()

    def clamped(part: int) -> Range:
        limit = histogram.reach * (1 - part / _CANDIDATES)
        return Range(max(min(limits.low, 0.0), -limit), min(max(limits.high, 0.0), limit))

    ranges = [clamped(part) for part in range(_CANDIDATES)]
    return min(ranges, key=partial(_divergence, histogram, _bins_per_step(histogram)))


def _bins_per_step(histogram: Histogram) -> int:
    """Return the number of bins of one step, without outliers, rounded to a power of two."""
    inner = _trim_tails(_INNER, histogram.rounded_counts, histogram.edges)
    share = min(_OUTLIER_FACTOR * max(-inner.low, inner.high) / histogram.reach, 1.0)
    return 1 << round(math.log2(max(share * _STEP_BINS, 1.0)))


def _squared_error(histogram: Histogram, range_: Range) -> float:
    """Return the squared error of rounding and clamping to 256 levels."""
    step = (range_.high - range_.low) / (_LEVELS - 1)
    centres, counts = histogram.centres, histogram.rounded_counts
    beyond = centres - np.clip(centres, range_.low, range_.high)
    inside = beyond == 0
    return float((counts * beyond**2).sum() + counts[inside].sum() * step**2 / 12)


def _divergence(histogram: Histogram, merged: int, range_: Range) -> float:
    """Return the divergence between the distribution, clamped to the range, and its 256 levels.

    `merged` bins are combined for the comparison. With finer bins, the shape of a peak narrower
    than a step would count as lost, and a range around that peak alone would win.
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
    modelled = np.where(kept > 0, sums[levels] / np.maximum(filled[levels], 1), 0.0)
    modelled = np.maximum(modelled / modelled.sum(), 1e-12)
    true /= true.sum()
    seen = true > 0
    return float((true[seen] * np.log(true[seen] / modelled[seen])).sum())

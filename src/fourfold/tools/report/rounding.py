"""Tests of whether a CPU runtime's own rounding explains a difference.

Two kinds of rounding are recognized. A quantized value differs by at most a step, and not more for
larger numbers: a wrong scale would leave a slope. Floats that are multiplied by integer weights are
rounded to eight bits first: rounded here in the same way, they give the runtime's result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product

import numpy as np

from fourfold.tools.report.exact import StepsBeforeRounding

NEAREST = 0.52  # steps: error of rounding to nearest, with the last digits of floats
MAX_STEPS = 1.01  # steps: error of rounding twice, as fixed-point arithmetic does
MAX_SLOPE = 4e-3  # half of 1/127, the smallest relative error of a wrong scale
MAX_STANDARD_ERRORS = 6.0  # a larger slope is not due to chance
MAX_SAMPLES = 2**17  # elements that a slope is measured on
MIN_SAMPLES = 32  # different numbers that a slope needs
MIN_SPREAD = 4.0  # steps: with less variation, rounding errors are not independent noise
MAX_OFFSET = 0.3  # steps: largest mean rounding error of one channel
TIE = 2e-4  # steps from the middle of two: float32 may round either way
IMITATION_TOLERANCE = 1e-5  # fraction of the range
Imitation = Callable[[np.ndarray], np.ndarray]


class RoundingNoise:
    """Compares stored steps with exact ones, added in chunks, to tell whether rounding made them.

    `size` is the total number of elements. `zero_shift` is the shift of all of them if the input's
    zero point was rounded too. A runtime's plain kernels may use the file's own factor, while its
    other kernels, and the exact steps here, use a coarse one.
    """

    def __init__(self, size: int, zero_shift: float = 0.0) -> None:
        self._every = max(1, size // MAX_SAMPLES)  # every n-th pixel is tested for a bias
        self._pixels = 0
        self._zero_shift = zero_shift
        self._farthest: dict[tuple[float, float], float] = {}  # by factor and shift
        self._stored: list[np.ndarray] = []
        self._exact: list[StepsBeforeRounding] = []

    @property
    def most(self) -> float:
        """Largest difference from the exact value, in steps."""
        return self._farthest.get((1.0, 0.0), 0.0)

    def add(self, stored: np.ndarray, exact: StepsBeforeRounding) -> None:
        for factor, shift in product({1.0, exact.coarse}, {0.0, self._zero_shift}):
            apart = np.abs(stored - exact.moved(factor, shift).steps).max(initial=0.0)
            most = self._farthest.get((factor, shift), 0.0)
            self._farthest[factor, shift] = float(np.maximum(most, apart))  # np.maximum keeps NaN
        channels = stored.shape[-1] if stored.ndim else 1
        pixels = stored.reshape(-1, channels)
        picked = slice(-self._pixels % self._every, None, self._every)
        self._pixels += len(pixels)
        self._stored.append(pixels[picked])
        self._exact.append(exact._replace(steps=exact.steps.reshape(-1, channels)[picked]))

    def is_rounding(self) -> bool:
        """Return whether rounding explains the steps: none is far off, and there is no bias."""
        if not self._exact:
            return False
        stored = np.concatenate(self._stored)
        exact = self._exact[0]._replace(steps=np.concatenate([one.steps for one in self._exact]))
        return any(
            most <= MAX_STEPS + exact.slack and _has_no_bias(stored, exact.moved(factor, shift))
            for (factor, shift), most in self._farthest.items()
        )


def _has_no_bias(stored: np.ndarray, exact: StepsBeforeRounding) -> bool:
    """Return whether neither the whole value nor any channel has a bias."""
    inside = (exact.steps > exact.low) & (exact.steps < exact.high)
    apart = stored - exact.steps
    column = (-1, 1)
    if is_biased(exact.steps.reshape(column), apart.reshape(column), inside.reshape(column)):
        return False
    return not is_biased(exact.steps, apart, inside)


def is_biased(exact: np.ndarray, apart: np.ndarray, inside: np.ndarray) -> bool:
    """Return whether differences of any column have a mean or a slope that chance does not explain.
    Repeated numbers count once, because they were rounded in the same way.
    """
    order = np.argsort(exact, axis=0)
    exact, apart, inside = (np.take_along_axis(a, order, 0) for a in (exact, apart, inside))
    new = np.diff(exact, axis=0, prepend=-np.inf) > 1e-6
    return bool(np.any(_biased(exact, apart, (new & inside).astype(np.float64))))


def _biased(exact: np.ndarray, apart: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return for each column whether its regression line has a significant slope or offset."""
    count = np.maximum(weight.sum(0), 1)
    mean = (apart * weight).sum(0) / count
    x, y = exact - (exact * weight).sum(0) / count, apart - mean
    spread = np.maximum((weight * x * x).sum(0), 1e-30)
    slope = (weight * x * y).sum(0) / spread
    left = (weight * (y - slope * x) ** 2).sum(0) / np.maximum(count - 2, 1)
    rises = np.abs(slope) > np.maximum(MAX_SLOPE, MAX_STANDARD_ERRORS * np.sqrt(left / spread))
    off = np.abs(mean) > np.maximum(MAX_OFFSET, MAX_STANDARD_ERRORS * np.sqrt(left / count))
    conclusive = (count >= MIN_SAMPLES) & (spread >= MIN_SPREAD**2 * count)
    return np.asarray(conclusive & (rises | off))


def imitations() -> Iterator[tuple[str, Sequence[Imitation]]]:
    """Yield the ways in which runtimes round floats before multiplying them by integer weights.

    Each has a title and three variants, because ties may be rounded either way.
    """
    for title, rounded in (("symmetric", _symmetric), ("asymmetric", _asymmetric)):
        for group, axes in (("batch", 1), ("row", -1)):
            nudged = [partial(rounded, axes=axes, nudge=nudge) for nudge in (0.0, TIE, -TIE)]
            yield f"{title} 8 bits for each {group}", nudged


def is_imitated(found: np.ndarray, imitated: Sequence[np.ndarray], reach: float) -> bool:
    """Return whether each number equals one of the imitations, up to rounding of floats relative to
    the range of all numbers.
    """
    nearest = np.min([np.abs(found - one) for one in imitated], axis=0)
    return bool(np.all(nearest <= IMITATION_TOLERANCE * (reach or 1.0)))


def _symmetric(x: np.ndarray, axes: int, nudge: float) -> np.ndarray:
    """Round to -127..127 steps with one scale per group, in float32 arithmetic."""
    grouped = _grouped(x, axes)
    reach = np.abs(grouped).max(1, keepdims=True)
    reach[reach == 0] = 1
    steps = _half_away(grouped * (np.float32(127) / reach), nudge).clip(-127, 127)
    return np.asarray(steps.astype(np.float64) * (reach / np.float32(127))).reshape(x.shape)


def _asymmetric(x: np.ndarray, axes: int, nudge: float) -> np.ndarray:
    """Round to 256 steps between the smallest and the largest number of each group, or zero."""
    grouped = _grouped(x, axes)
    least = np.minimum(grouped.min(1, keepdims=True), 0).astype(np.float64)
    most = np.maximum(grouped.max(1, keepdims=True), 0).astype(np.float64)
    scale = (most - least) / 255
    scale[scale == 0] = 1
    from_least = 128 + np.abs(least / scale) < 127 + np.abs(most / scale)
    zero = np.where(from_least, -128 - least / scale, 127 - most / scale)
    zero = np.floor(zero + 0.5).clip(-128, 127)
    step = scale.astype(np.float32)
    shifted = zero.astype(np.float32) + grouped * (np.float32(1) / step)
    steps = _half_away(shifted, nudge).clip(-128, 127)
    return np.asarray((steps - zero) * step).reshape(x.shape)


def _grouped(x: np.ndarray, axes: int) -> np.ndarray:
    """Return elements with the same indices along the first axes as rows."""
    return x.astype(np.float32).reshape(math.prod(x.shape[:axes]), -1)


def _half_away(x: np.ndarray, nudge: float) -> np.ndarray:
    return np.asarray(np.copysign(np.floor(np.abs(x) + np.float32(0.5 + nudge)), x))

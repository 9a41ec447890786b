"""Whether a CPU runtime's own rounding is the whole of a difference: shown, not assumed.

Two things are roundings. A value on a grid is off by no more than a step, and by no more where
numbers are large: a wrong scale leaves a slope. Floats beside integer weights are rounded to eight
bits before they are multiplied: rounded here in the same way, they give the runtime's own result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from fourfold.tools.report.exact import StepsBeforeRounding

NEAREST = 0.52  # steps: what rounding to the nearest leaves, and the last digits of floats
FURTHEST = 1.01  # steps: rounded twice, which fixed-point arithmetic does
SLOPE = 4e-3  # a half of 1/127, the least by which scales are mistaken
CERTAIN = 6.0  # standard errors beyond which a slope is none by chance
MEASURED = 2**17  # elements that a slope is measured on, at most
FEWEST = 32  # different numbers that a slope can be told from
WIDEST = 4.0  # steps by which they have to vary, or roundings are no noise
OFFSET = 0.3  # steps: by which roundings of one channel may be off on average
TIE = 2e-4  # steps from the middle of two: either may be the nearest, in f32
IMITATED = 1e-5  # of the range: how near an imitated rounding has to come
Imitation = Callable[[np.ndarray], np.ndarray]


class RoundingNoise:
    """Stored steps beside exact ones, given part by part: whether some rounding made them.

    `size` is how many there are in all, and `zero_shift` by how much all of them are off where the
    input's zero point was rounded, too. A runtime's plain kernels may have the file's own factor
    where others have a coarse one, which is what exact steps are by then.
    """

    def __init__(self, size: int, zero_shift: float = 0.0) -> None:
        self._every = max(1, size // MEASURED)  # pixels to one that a bias is told from
        self._pixels = 0
        self._zero_shift = zero_shift
        self._farthest: dict[tuple[float, float], float] = {}  # by factor and shift
        self._stored: list[np.ndarray] = []
        self._exact: list[StepsBeforeRounding] = []

    @property
    def most(self) -> float:
        """The most steps that one is from the exact one."""
        return self._farthest.get((1.0, 0.0), 0.0)

    def add(self, stored: np.ndarray, exact: StepsBeforeRounding) -> None:
        for way in {(f, s) for f in (1.0, exact.coarse) for s in (0.0, self._zero_shift)}:
            apart = np.abs(stored - exact.moved(*way).steps).max(initial=0.0)
            most = self._farthest.get(way, 0.0)
            self._farthest[way] = float(np.maximum(most, apart))  # which keeps what is no number
        channels = stored.shape[-1] if stored.ndim else 1
        pixels = stored.reshape(-1, channels)
        picked = slice(-self._pixels % self._every, None, self._every)
        self._pixels += len(pixels)
        self._stored.append(pixels[picked])
        self._exact.append(exact._replace(steps=exact.steps.reshape(-1, channels)[picked]))

    def is_rounding(self) -> bool:
        """Whether steps are what some rounding makes of the exact ones: none far off, no bias."""
        if not self._exact:
            return False
        stored = np.concatenate(self._stored)
        exact = self._exact[0]._replace(steps=np.concatenate([one.steps for one in self._exact]))
        return any(
            most <= FURTHEST + exact.slack and _has_no_bias(stored, exact.moved(*way))
            for way, most in self._farthest.items()
        )


def _has_no_bias(stored: np.ndarray, exact: StepsBeforeRounding) -> bool:
    """Neither in the whole nor in any channel."""
    inside = (exact.steps > exact.low) & (exact.steps < exact.high)
    by_channel = (exact.steps, stored - exact.steps, inside)
    whole = (array.reshape(-1, 1) for array in by_channel)
    return not is_biased(*whole) and not is_biased(*by_channel)


def is_biased(exact: np.ndarray, apart: np.ndarray, inside: np.ndarray) -> bool:
    """Whether differences of any column have a mean of their own or grow with the numbers, and not
    by chance. A number that comes again says nothing new: it was rounded in the same way.
    """
    order = np.argsort(exact, axis=0)
    exact, apart, inside = (np.take_along_axis(a, order, 0) for a in (exact, apart, inside))
    new = np.diff(exact, axis=0, prepend=-np.inf) > 1e-6
    return bool(np.any(_biased(exact, apart, (new & inside).astype(np.float64))))


def _biased(exact: np.ndarray, apart: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """For each column, whether a line through it rises or lies off zero for certain."""
    count = np.maximum(weight.sum(0), 1)
    mean = (apart * weight).sum(0) / count
    x, y = exact - (exact * weight).sum(0) / count, apart - mean
    spread = np.maximum((weight * x * x).sum(0), 1e-30)
    slope = (weight * x * y).sum(0) / spread
    left = (weight * (y - slope * x) ** 2).sum(0) / np.maximum(count - 2, 1)
    rises = np.abs(slope) > np.maximum(SLOPE, CERTAIN * np.sqrt(left / spread))
    off = np.abs(mean) > np.maximum(OFFSET, CERTAIN * np.sqrt(left / count))
    telling = (count >= FEWEST) & (spread >= WIDEST**2 * count)
    return np.asarray(telling & (rises | off))


def imitations() -> Iterator[tuple[str, Sequence[Imitation]]]:
    """The ways in which runtimes round floats that they multiply by integer weights, in words.

    Each comes three times: what is all but half way between two steps may go either way.
    """
    for title, rounded in (("symmetric", _symmetric), ("asymmetric", _asymmetric)):
        for group, axes in (("batch", 1), ("row", -1)):
            nudged = [partial(rounded, axes=axes, nudge=nudge) for nudge in (0.0, TIE, -TIE)]
            yield f"{title} 8 bits for each {group}", nudged


def is_imitated(found: np.ndarray, imitated: Sequence[np.ndarray], reach: float) -> bool:
    """Whether each number is met by one of the imitations, but for the last digits of floats, which
    are measured by the reach of all numbers.
    """
    nearest = np.min([np.abs(found - one) for one in imitated], axis=0)
    return bool(np.all(nearest <= IMITATED * (reach or 1.0)))


def _symmetric(x: np.ndarray, axes: int, nudge: float) -> np.ndarray:
    """From -127 to 127 steps of one scale for each group, in the arithmetic of f32."""
    grouped = _grouped(x, axes)
    reach = np.abs(grouped).max(1, keepdims=True)
    reach[reach == 0] = 1
    steps = _half_away(grouped * (np.float32(127) / reach), nudge).clip(-127, 127)
    return np.asarray(steps.astype(np.float64) * (reach / np.float32(127))).reshape(x.shape)


def _asymmetric(x: np.ndarray, axes: int, nudge: float) -> np.ndarray:
    """256 steps from the least to the largest number of each group, zero among them."""
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
    """What has the same indices along the first axes, as a row."""
    return x.astype(np.float32).reshape(math.prod(x.shape[:axes]), -1)


def _half_away(x: np.ndarray, nudge: float) -> np.ndarray:
    return np.asarray(np.copysign(np.floor(np.abs(x) + np.float32(0.5 + nudge)), x))

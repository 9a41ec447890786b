"""Where the elements of a resized axis come from, and how much each counts: as ONNX defines it, and
for pictures by the part that each covers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class ResizedAxis:
    """An axis, its new size, by how much it grows, and which part of it is looked at.

    `scale` is the factor that a model asked for, which rounding to a size may have changed; `start`
    and `end` count for crops only, as fractions of the axis.
    """

    axis: int
    size: int
    scale: float
    start: float = 0.0
    end: float = 1.0


@dataclass(frozen=True)
class Sampling:
    """How elements between those of the input are made.

    `mode` is 'nearest', 'linear' or 'cubic', `coordinates` the name of a map in COORDINATES,
    `rounding` that of a rule in ROUNDINGS, for the nearest. `cubic` is the coefficient of the cubic
    curve; what lies outside counts as the nearest element inside, or nothing if `exclude_outside`.
    With `antialias`, an axis that shrinks is smoothed.
    """

    mode: str = "nearest"
    coordinates: str = "half_pixel"
    rounding: str = "round_prefer_floor"
    cubic: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False


@dataclass(frozen=True, eq=False)
class TapTable:
    """For each element of a resized axis: the elements that count, how much, and whether the place
    is outside of what may be looked at.
    """

    indices: np.ndarray
    weights: np.ndarray
    outside: np.ndarray


Places = Callable[[np.ndarray, int, ResizedAxis], np.ndarray]


def _half_pixel(at: np.ndarray, size: int, axis: ResizedAxis) -> np.ndarray:
    return (at + 0.5) / axis.scale - 0.5


def _symmetric(at: np.ndarray, size: int, axis: ResizedAxis) -> np.ndarray:
    """The centre stays the centre, also where the size is not that which the scale leads to."""
    adjusted = axis.size / (axis.scale * size)
    return np.asarray(size / 2 * (1 - adjusted) + (at + 0.5) / axis.scale - 0.5)


def _pytorch_half_pixel(at: np.ndarray, size: int, axis: ResizedAxis) -> np.ndarray:
    single = axis.scale * size == 1
    return np.full(at.shape, -0.5) if single else _half_pixel(at, size, axis)


def _align_corners(at: np.ndarray, size: int, axis: ResizedAxis) -> np.ndarray:
    steps = axis.scale * size - 1
    return np.zeros(at.shape) if steps == 0 else at * (size - 1) / steps


def _crop(at: np.ndarray, size: int, axis: ResizedAxis) -> np.ndarray:
    steps, length = axis.scale * size - 1, (axis.end - axis.start) * (size - 1)
    along = np.full(at.shape, length / 2) if steps == 0 else at * length / steps
    return np.asarray(axis.start * (size - 1) + along)


COORDINATES: dict[str, Places] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _symmetric,
    "pytorch_half_pixel": _pytorch_half_pixel,
    "align_corners": _align_corners,
    "asymmetric": lambda at, size, axis: at / axis.scale,
    "tf_crop_and_resize": _crop,
}
ROUNDINGS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}
MODES = ("nearest", "linear", "cubic")
NOTHING = np.float32(1e-6)  # a weight so small comes from rounding


def tap_table(sampling: Sampling, axis: ResizedAxis, size: int) -> TapTable:
    """Which of the `size` elements of an axis count for each of its new ones."""
    steps = np.arange(axis.size, dtype=np.float64)
    places = COORDINATES[sampling.coordinates](steps, size, axis)
    outside = np.zeros(axis.size, np.bool_)
    if sampling.coordinates == "tf_crop_and_resize":
        outside = (places < 0) | (places > size - 1)
    if sampling.mode == "nearest":
        # A scale such as 0.6 is not quite that in a file: places may be whole but for rounding.
        indices = ROUNDINGS[sampling.rounding](places.round(6))[:, None]
        weights = np.ones(indices.shape)
    else:
        indices, weights = _neighbours(sampling, places, min(axis.scale, 1.0))
    if sampling.exclude_outside:
        weights = np.where((indices >= 0) & (indices < size), weights, 0.0)
        total = weights.sum(axis=1, keepdims=True)
        weights = weights / np.where(total == 0, 1.0, total)
    counts = weights.any(axis=0)
    indices = np.clip(indices[:, counts], 0, size - 1).astype(np.int32)
    return TapTable(indices, weights[:, counts].astype(np.float32), outside)


def area_table(size: int, new_size: int) -> TapTable:
    """The same where each new element is the mean of the part of the axis that it covers."""
    step = size / new_size
    starts = np.arange(new_size) * step
    first = np.floor(starts)
    indices = first[:, None] + np.arange(int(np.ceil(step)) + 1)
    # What of each old element lies between the start and the end of the new one.
    ends = np.minimum(indices + 1, (starts + step)[:, None])
    weights = np.maximum(ends - np.maximum(indices, starts[:, None]), 0) / step
    weights = np.where(indices < size, weights, 0.0).astype(np.float32)
    # Sums such as 2.9999996 reach into the next element by what rounding left.
    weights = np.where(weights < NOTHING, np.float32(0), weights)
    counts = weights.any(axis=0)
    indices = np.minimum(indices[:, counts], size - 1).astype(np.int32)
    return TapTable(indices, weights[:, counts], np.zeros(new_size, np.bool_))


def _neighbours(
    sampling: Sampling, places: np.ndarray, scale: float
) -> tuple[np.ndarray, np.ndarray]:
    """The elements around each place, by rows, and how much they count."""
    reach, curve = (1, _linear) if sampling.mode == "linear" else (2, _cubic)
    scale = scale if sampling.antialias else 1.0
    first = int(np.floor(-reach / scale)) + 1
    below = np.floor(places)[:, None]
    steps = np.arange(first, 2 - first)
    distances = np.abs(steps - (places[:, None] - below)) * scale
    weights = curve(distances, sampling.cubic)
    return below + steps, weights / weights.sum(axis=1, keepdims=True)


def _linear(distance: np.ndarray, coefficient: float) -> np.ndarray:
    return np.asarray(np.maximum(1 - distance, 0))


def _cubic(distance: np.ndarray, a: float) -> np.ndarray:
    """Keys' curve: one parabola of the third degree within one element, another within two."""
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = ((distance - 5) * distance + 8) * distance * a - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))

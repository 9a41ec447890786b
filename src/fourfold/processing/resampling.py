"""Source indices and weights of a resized axis, as ONNX Resize defines them, and area sampling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class ResizedAxis:
    """An axis to resize.

    Attributes:
        axis: Index of the axis.
        size: New size.
        scale: Scale factor of the model, which may differ from the ratio of the sizes by rounding.
        start: Start of the crop, as a fraction of the axis.
        end: End of the crop, as a fraction of the axis.
    """

    axis: int
    size: int
    scale: float
    start: float = 0.0
    end: float = 1.0


@dataclass(frozen=True)
class Sampling:
    """Interpolation between elements of the input.

    Attributes:
        mode: 'nearest', 'linear' or 'cubic'.
        coordinates: A name in COORDINATES.
        rounding: A name in ROUNDINGS, for 'nearest'.
        cubic: Coefficient of the cubic curve.
        exclude_outside: Ignore elements outside the axis. Otherwise the nearest element inside is
            used.
        antialias: Smooth an axis that shrinks.
    """

    mode: str = "nearest"
    coordinates: str = "half_pixel"
    rounding: str = "round_prefer_floor"
    cubic: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False


@dataclass(frozen=True, eq=False)
class TapTable:
    """Source elements of each element of a resized axis, their weights, and whether it is
    outside the crop.
    """

    indices: np.ndarray
    weights: np.ndarray
    outside: np.ndarray


CoordinateMap = Callable[[np.ndarray, int, ResizedAxis], np.ndarray]


def _half_pixel(at: np.ndarray, size: int, axis: ResizedAxis) -> np.ndarray:
    return (at + 0.5) / axis.scale - 0.5


def _symmetric(at: np.ndarray, size: int, axis: ResizedAxis) -> np.ndarray:
    """Keep the center in place, also if the size was rounded."""
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


COORDINATES: dict[str, CoordinateMap] = {
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
MIN_WEIGHT = np.float32(1e-6)  # smaller weights are rounding errors


def tap_table(sampling: Sampling, axis: ResizedAxis, size: int) -> TapTable:
    """Return the source elements of each element of an axis of `size` elements."""
    steps = np.arange(axis.size, dtype=np.float64)
    positions = COORDINATES[sampling.coordinates](steps, size, axis)
    outside = np.zeros(axis.size, np.bool_)
    if sampling.coordinates == "tf_crop_and_resize":
        outside = (positions < 0) | (positions > size - 1)
    if sampling.mode == "nearest":
        # Scales such as 0.6 are not exact, so positions may miss an integer by a rounding error.
        indices = ROUNDINGS[sampling.rounding](positions.round(6))[:, None]
        weights = np.ones(indices.shape)
    else:
        indices, weights = _neighbours(sampling, positions, min(axis.scale, 1.0))
    if sampling.exclude_outside:
        weights = np.where((indices >= 0) & (indices < size), weights, 0.0)
        total = weights.sum(axis=1, keepdims=True)
        weights = weights / np.where(total == 0, 1.0, total)
    counts = weights.any(axis=0)
    indices = np.clip(indices[:, counts], 0, size - 1).astype(np.int32)
    return TapTable(indices, weights[:, counts].astype(np.float32), outside)


def area_table(size: int, new_size: int) -> TapTable:
    """Return the source elements if each new element is the mean of the part that it covers."""
    step = size / new_size
    starts = np.arange(new_size) * step
    first = np.floor(starts)
    indices = first[:, None] + np.arange(int(np.ceil(step)) + 1)
    # The overlap of each old element with the new one.
    overlap_ends = np.minimum(indices + 1, (starts + step)[:, None])
    weights = np.maximum(overlap_ends - np.maximum(indices, starts[:, None]), 0) / step
    weights = np.where(indices < size, weights, 0.0).astype(np.float32)
    # Rounding errors in sums such as 2.9999996 must not add the next element.
    weights = np.where(weights < MIN_WEIGHT, np.float32(0), weights)
    counts = weights.any(axis=0)
    indices = np.minimum(indices[:, counts], size - 1).astype(np.int32)
    return TapTable(indices, weights[:, counts], np.zeros(new_size, np.bool_))


def _neighbours(
    sampling: Sampling, positions: np.ndarray, scale: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the elements around each position, and their weights."""
    reach, curve = (1, _linear) if sampling.mode == "linear" else (2, _cubic)
    scale = scale if sampling.antialias else 1.0
    first = int(np.floor(-reach / scale)) + 1
    below = np.floor(positions)[:, None]
    steps = np.arange(first, 2 - first)
    distances = np.abs(steps - (positions[:, None] - below)) * scale
    weights = curve(distances, sampling.cubic)
    return below + steps, weights / weights.sum(axis=1, keepdims=True)


def _linear(distance: np.ndarray, coefficient: float) -> np.ndarray:
    return np.asarray(np.maximum(1 - distance, 0))


def _cubic(distance: np.ndarray, a: float) -> np.ndarray:
    """Keys' cubic convolution: one cubic within one element, another within two."""
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = ((distance - 5) * distance + 8) * distance * a - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))

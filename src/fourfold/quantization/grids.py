"""From ranges of real numbers to the grids that integers stand for, and back."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fourfold.types import DType, Quantization

LEAST_SCALE = 2.0**-60  # so that products of two scales are still normal floats
LARGEST_SCALE = 2.0**60
# The largest integer of weights: they are symmetric, so that the lowest one of a type is not used.
_LARGEST_WEIGHT = {DType.I4: 7, DType.I8: 127}
_BITS = {DType.I4: 4, DType.I8: 8, DType.I16: 16, DType.I32: 32, DType.I64: 64}
_LEAST_SHARE = 2.0**-20  # a channel's weights count as at least so much of the largest of all
# The largest integer of a bias: sums of products are added to it, and those must fit, too.
_LARGEST_BIAS = {DType.I32: 2.0**30, DType.I64: 2.0**38}


class Range(NamedTuple):
    """The least and the largest number that is to be told from others."""

    low: float
    high: float

    def joined(self, other: Range) -> Range:
        return Range(min(self.low, other.low), max(self.high, other.high))


def value_grid(range_: Range, dtype: DType) -> Quantization:
    """The grid of a value: all integers of I8 with zero among its numbers, I16 around zero."""
    low, high = min(range_.low, 0.0), max(range_.high, 0.0)
    if dtype is DType.I16:
        return Quantization((_scale(max(-low, high) / 32767),), (0,))
    scale = _scale((high - low) / 255)
    return Quantization((scale,), (int(np.clip(round(-128 - low / scale), -128, 127)),))


def weight_grid(weights: np.ndarray, dtype: DType, axis: int | None) -> Quantization:
    """A grid around zero: one for all weights, or one for each index along the axis."""
    sizes = np.abs(weights.astype(np.float64))
    others = tuple(at for at in range(weights.ndim) if at != axis)
    largest = np.atleast_1d(sizes.max(others if axis is not None else None, initial=0.0))
    whole = float(largest.max(initial=0.0)) or 1.0
    scales = np.maximum(largest, whole * _LEAST_SHARE) / _LARGEST_WEIGHT[dtype]
    found = tuple(_scale(scale) for scale in scales)
    return Quantization(found, (0,) * len(found), axis)


def make_room_for_bias(
    weights: Quantization, bias: np.ndarray, step: float, dtype: DType
) -> Quantization:
    """The grid of weights, coarser where a bias would otherwise not fit its integers: these count
    products of a step of the input and one of the weights.
    """
    needed = np.abs(bias.astype(np.float64)) / (step * _LARGEST_BIAS[dtype])
    if weights.axis is None:
        needed = needed.max(initial=0.0)[None]
    pairs = zip(weights.scale, needed, strict=True)
    return Quantization(
        tuple(_scale(max(pair)) for pair in pairs), weights.zero_point, weights.axis
    )


def bias_grid(weights: Quantization, step: float) -> Quantization:
    """The grid of a bias: that of the products that it is added to."""
    scales = tuple(float(np.float32(step * scale)) for scale in weights.scale)
    return Quantization(scales, (0,) * len(scales), None if weights.axis is None else 0)


def rounded(array: np.ndarray, dtype: DType, grid: Quantization | None) -> np.ndarray:
    """The real numbers that are left of these when they are stored in this way."""
    if grid is None:
        return array.astype(dtype.numpy).astype(np.float32)
    half = 2.0 ** (_BITS[dtype] - 1)
    shape = [1] * array.ndim
    if grid.axis is not None:
        shape[grid.axis] = -1
    scale = np.array(grid.scale, np.float64).reshape(shape)
    point = np.array(grid.zero_point, np.float64).reshape(shape)
    steps = np.clip(np.rint(array / scale) + point, -half, half - 1) - point
    return np.asarray(steps * scale, np.float32)


def _scale(scale: float) -> float:
    """As files have it: an f32, neither too small nor too large to compute with."""
    return float(np.float32(np.clip(scale, LEAST_SCALE, LARGEST_SCALE)))

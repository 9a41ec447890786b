"""Grids contain zero, cover their range, and accept empty ranges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold.export.quantize.storage import (
    Range,
    bias_grid,
    rounded,
    value_grid,
    weight_grid,
    widen_for_bias,
)
from fourfold.types import DType, Quantization, to_integers

reals = st.floats(-(2.0**60), 2.0**60, width=32)


@given(reals, reals, st.sampled_from([DType.I8, DType.I16]))
def test_a_grid_holds_zero_and_its_range(one: float, other: float, dtype: DType) -> None:
    range_ = Range(min(one, other), max(one, other))
    grid = value_grid(range_, dtype)
    limits = np.iinfo(dtype.numpy)
    scale, point = grid.scale[0], grid.zero_point[0]
    assert scale > 0
    assert np.float32(scale) == scale
    assert limits.min <= point <= limits.max
    assert (limits.min - point) * scale <= min(range_.low, 0) + 0.51 * scale
    assert (limits.max - point) * scale >= max(range_.high, 0) - 0.51 * scale


@given(st.lists(st.floats(-5, 5, width=32), min_size=1))
def test_no_value_of_the_range_is_off_by_more_than_a_step(numbers: list[float]) -> None:
    array = np.float32(numbers)
    grid = value_grid(Range(float(array.min()), float(array.max())), DType.I8)
    left = rounded(array, DType.I8, grid)
    assert np.abs(left - array).max() <= grid.scale[0] * 1.001


def test_rounded_values_equal_those_in_files() -> None:
    array = np.linspace(-1, 3, 101, dtype=np.float32)
    grid = value_grid(Range(-1, 3), DType.I8)
    steps = to_integers(array, grid, DType.I8).astype(np.float64)
    expected = (steps - grid.zero_point[0]) * grid.scale[0]
    assert np.allclose(rounded(array, DType.I8, grid), expected)


@pytest.mark.parametrize("range_", [Range(0, 0), Range(1e-45, 1e-45), Range(-3e38, 3e38)])
def test_ranges_that_are_none_have_a_grid(range_: Range) -> None:
    for dtype in (DType.I8, DType.I16):
        scale = value_grid(range_, dtype).scale[0]
        assert 0 < scale < np.inf
        assert np.isfinite(np.float32(1) / np.float32(scale))


def test_weights_have_one_scale_a_channel() -> None:
    weights = np.float32([[1, -2], [0.5, 0.25], [0, 0]])
    grid = weight_grid(weights, DType.I8, 0)
    assert grid.scale[:2] == pytest.approx((2 / 127, 0.5 / 127))
    assert grid.zero_point == (0, 0, 0)
    assert grid.axis == 0
    assert np.abs(rounded(weights, DType.I8, grid) - weights).max() <= 1 / 127
    assert weight_grid(weights, DType.I8, None).scale == pytest.approx((2 / 127,))


@given(st.integers(0, 2**32 - 1), st.sampled_from([(DType.I8, 127), (DType.I4, 7)]))
def test_weights_are_off_by_half_a_step_at_most(seed: int, kind: tuple[DType, int]) -> None:
    dtype, most = kind
    weights = np.random.default_rng(seed).standard_normal((3, 5)).astype(np.float32)
    grid = weight_grid(weights, dtype, 0)
    left = rounded(weights, dtype, grid)
    steps = left / np.float32(grid.scale)[:, None]
    assert np.abs(np.rint(steps)).max() <= most
    assert (np.abs(left - weights) <= np.float32(grid.scale)[:, None] * 0.501).all()


def test_a_large_bias_makes_weights_coarser() -> None:
    weights = Quantization((1e-6, 1e-6), (0, 0), 0)
    grid = widen_for_bias(weights, np.float32([1e3, 1e-3]), 1e-6, DType.I32)
    assert grid.scale[1] == pytest.approx(1e-6)
    bias = bias_grid(grid, 1e-6)
    assert 1e3 / bias.scale[0] <= 2.0**30 * 1.001
    assert bias.axis == 0

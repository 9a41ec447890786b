"""Estimators of ranges find the expected range of known distributions, and accept any array."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold.errors import InputError
from fourfold.export.quantize.ranges import ESTIMATORS, Histogram, make_estimator
from fourfold.export.quantize.storage import Range


def estimate(name: str, *arrays: np.ndarray) -> Range:
    estimator = make_estimator(name)()
    for array in arrays:
        estimator.add(array)
    return estimator.range()


def drawn(count: int = 50_000, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32)


def test_minmax_is_that_of_all_arrays() -> None:
    found = estimate("minmax", np.float32([-1, 2]), np.float32([0, 5]), np.float32([-3]))
    assert found == Range(-3, 5)


def test_a_moving_average_follows_slowly() -> None:
    calm, wild = np.float32([-1, 1]), np.float32([-11, 21])
    found = estimate("moving-average", calm, calm, wild)
    assert found == pytest.approx(Range(-2, 3))
    assert estimate("moving-average", *[calm] * 5) == Range(-1, 1)


def test_a_percentile_ignores_outliers() -> None:
    numbers = np.linspace(0, 100, 100_001, dtype=np.float32)
    found = estimate("percentile:98", *np.split(numbers[:-1], 10))
    assert found == pytest.approx(Range(1, 99), abs=0.05)
    assert estimate("percentile:100", numbers) == Range(0, 100)


def test_one_outlier_hardly_widens_a_percentile() -> None:
    found = estimate("percentile", drawn(), np.float32([1000]))
    assert found.high < 8


def test_mse_clamps_a_normal_distribution_where_theory_says() -> None:
    """The squared error of 256 levels on a normal distribution is smallest near 3.9 deviations."""
    found = estimate("mse", drawn(1_000_000))
    assert found.high == pytest.approx(3.9, abs=0.5)
    assert found.low == pytest.approx(-3.9, abs=0.5)


def test_mse_weighs_one_outlier_against_the_steps_of_the_others() -> None:
    """The error (o - t)**2 + n * (t / 255)**2 / 12 is smallest at t = o / (1 + n / (12 *
    255**2)).
    """
    numbers = np.abs(drawn(2_000_000))
    found = estimate("mse", numbers, np.float32([400]))
    assert found.high == pytest.approx(400 / (1 + 2_000_000 / (12 * 255**2)), rel=0.05)


def test_entropy_clamps_a_far_outlier() -> None:
    found = estimate("entropy", drawn(200_000), np.float32([400]))
    assert 2.5 < found.high < 100


def test_entropy_keeps_both_tails_of_a_narrow_peak() -> None:
    """With bins finer than the steps, the range was -1.9 to 0.02: the peak and one of its tails."""
    random = np.random.default_rng(1)
    peak, tails = 0.01 * random.standard_normal(180_000), random.laplace(size=20_000)
    found = estimate("entropy", np.concatenate([peak, tails]).astype(np.float32))
    assert found.low < -3
    assert found.high > 3


@pytest.mark.parametrize("name", ["mse", "entropy"])
def test_zeros_do_not_narrow_a_range(name: str) -> None:
    """Outputs of a relu are mostly zeros, which every grid represents exactly."""
    positive = np.abs(drawn(100_000))
    padded = np.concatenate([positive, np.zeros(1_900_000, np.float32)])
    assert estimate(name, padded).high == estimate(name, positive).high > 2.5


@pytest.mark.parametrize("name", ["mse", "entropy", "percentile"])
def test_an_even_distribution_keeps_its_range(name: str) -> None:
    numbers = np.random.default_rng(0).uniform(0, 6, 200_000).astype(np.float32)
    found = estimate(name, numbers)
    assert found.low == pytest.approx(0, abs=0.02)
    assert found.high == pytest.approx(6, abs=0.3)


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize(
    "array",
    [np.zeros(7), np.full(5, 3.0), np.full(5, -2.0), np.array([1e-38]), np.array([-3e38, 3e38])],
    ids=["zeros", "one value", "one negative value", "tiny", "huge"],
)
def test_degenerate_arrays_have_a_range(name: str, array: np.ndarray) -> None:
    array = array.astype(np.float32).astype(np.float64)
    found = estimate(name, array.astype(np.float32))
    assert np.isfinite(found).all()
    assert array.min() - 1e-6 <= found.low <= found.high <= array.max() + 1e-6 or found.low == 0


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1), st.integers(1, 5))
def test_a_growing_histogram_loses_no_number(numbers: list[float], parts: int) -> None:
    histogram = Histogram(lambda one: one.exact.range())
    for part in np.array_split(np.float32(numbers), parts):
        if part.size:
            histogram.add(part)
    assert histogram.counts.sum() == len(numbers)
    assert histogram.reach >= np.abs(np.float32(numbers)).max()
    centres, width = histogram.centres, histogram.edges[1] - histogram.edges[0]
    mean = (centres * histogram.counts).sum() / len(numbers)
    assert mean == pytest.approx(np.mean(np.float64(np.float32(numbers))), abs=width + 1e-9)


@pytest.mark.parametrize("name", ["minmex", "percentile:20", "percentile:all", "mse:3"])
def test_unknown_estimators_are_refused(name: str) -> None:
    with pytest.raises(InputError):
        make_estimator(name)

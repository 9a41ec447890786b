"""Classify scores by their values."""

from __future__ import annotations

import numpy as np

_TOLERANCE = 0.02  # deviation of quantized probabilities from a sum of one


def logistic(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-np.clip(x, -80.0, 80.0))))


def are_fractions(numbers: np.ndarray) -> bool:
    """Return True if all numbers are from 0 to 1."""
    return bool(numbers.size) and bool(numbers.min() >= 0 and numbers.max() <= 1)


def are_probabilities(numbers: np.ndarray) -> bool:
    """Return True if the numbers are from 0 to 1 and sum to one."""
    return are_fractions(numbers) and abs(float(numbers.sum()) - 1) < _TOLERANCE


def has_unit_length(numbers: np.ndarray) -> bool:
    """Return True for a vector of unit length, as most embeddings are."""
    return bool(numbers.size) and abs(float(np.square(numbers).sum()) - 1) < _TOLERANCE


def as_fractions(numbers: np.ndarray) -> tuple[np.ndarray, str]:
    """Return scores from 0 to 1 and a note if the logistic function was applied."""
    if are_fractions(numbers):
        return numbers, ""
    return logistic(numbers), "scores are the sigmoid of the output's logits"

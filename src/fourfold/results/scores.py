"""What can be told of scores by their numbers alone."""

from __future__ import annotations

import numpy as np

_ROUNDED = 0.02  # sums of quantised probabilities are apart from one by so much


def logistic(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-np.clip(x, -80.0, 80.0))))


def are_fractions(numbers: np.ndarray) -> bool:
    """Whether all are from 0 to 1."""
    return bool(numbers.size) and bool(numbers.min() >= 0 and numbers.max() <= 1)


def are_probabilities(numbers: np.ndarray) -> bool:
    """Whether those of one thing share a whole among them."""
    return are_fractions(numbers) and abs(float(numbers.sum()) - 1) < _ROUNDED


def are_of_unit_length(numbers: np.ndarray) -> bool:
    """As embeddings are that are to be compared."""
    return bool(numbers.size) and abs(float(np.square(numbers).sum()) - 1) < _ROUNDED


def as_fractions(numbers: np.ndarray) -> tuple[np.ndarray, str]:
    """Scores from 0 to 1 and, in words, how they came to be: logits by the logistic function."""
    if are_fractions(numbers):
        return numbers, ""
    return logistic(numbers), "logits made scores from 0 to 1"

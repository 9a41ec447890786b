"""Floats as bytes: rounded, and what is too small or too large made the first or the last."""

from __future__ import annotations

import numpy as np


def rounded_bytes(
    first: np.ndarray, second: np.ndarray, high: np.ndarray, zero: np.ndarray | None = None
) -> np.ndarray:
    """Twice eight floats as StoreRounded makes bytes of them. NaN becomes the highest."""
    parts = [_rounded(eight, high, zero) for eight in (first, second)]
    items = max(part.shape[1] for part in parts)
    return np.concatenate([np.broadcast_to(part, (8, items)) for part in parts])


def _rounded(value: np.ndarray, high: np.ndarray, zero: np.ndarray | None) -> np.ndarray:
    low = np.where(value < high, value, high)
    if zero is None:
        whole = _in_words(np.trunc(low + np.float32(0.5)))
    else:
        whole = _in_words(np.rint(low)) + zero.astype(np.int64)
    return np.clip(np.clip(whole, -32768, 32767), 0, 255).astype(np.uint8)


def _in_words(value: np.ndarray) -> np.ndarray:
    """Whole numbers in 16 bits; what does not even fit 32 is the lowest."""
    fits = (value >= -(2.0**31)) & (value < 2.0**31)
    whole = np.where(fits, value, np.float32(-(2.0**31))).astype(np.int64)
    return np.clip(whole, -32768, 32767)

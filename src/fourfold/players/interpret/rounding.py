"""Round floats to bytes, with saturation."""

from __future__ import annotations

import numpy as np


def rounded_bytes(
    first: np.ndarray, second: np.ndarray, high: np.ndarray, zero: np.ndarray | None = None
) -> np.ndarray:
    """Round two vectors of eight floats to bytes, as StoreRounded does. NaN becomes the highest."""
    parts = [_rounded(eight, high, zero) for eight in (first, second)]
    items = max(part.shape[1] for part in parts)
    return np.concatenate([np.broadcast_to(part, (8, items)) for part in parts])


def _rounded(value: np.ndarray, high: np.ndarray, zero: np.ndarray | None) -> np.ndarray:
    low = np.where(value < high, value, high)
    if zero is None:
        integers = _in_words(np.trunc(low + np.float32(0.5)))
    else:
        integers = _in_words(np.rint(low)) + zero.astype(np.int64)
    return np.clip(np.clip(integers, -32768, 32767), 0, 255).astype(np.uint8)


def _in_words(value: np.ndarray) -> np.ndarray:
    """Convert to 16-bit integers with saturation; values beyond 32 bits become the lowest."""
    fits = (value >= -(2.0**31)) & (value < 2.0**31)
    integers = np.where(fits, value, np.float32(-(2.0**31))).astype(np.int64)
    return np.clip(integers, -32768, 32767)

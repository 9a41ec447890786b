"""Rounding to a quantization grid, in kernels and in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from fourfold.codegen.expression import (
    Expression,
    convert,
    maximum,
    minimum,
    round_away,
    round_even,
)


def round_to_grid(attributes: Any, x: Expression) -> Expression:
    """Return clamp(round(x / scale), low, high), computed in float32.

    fp16 cannot represent all steps. Ties round to even, as in most LiteRT kernels, or away from
    `pivot`.
    """
    steps, pivot = convert(x, "float") * attributes.inverse, attributes.pivot
    away = 0.0 if pivot is None else float(pivot)
    steps = round_even(steps) if pivot is None else round_away(steps - away) + away
    return minimum(maximum(steps, attributes.low), attributes.high)


def reference_round_to_grid(attributes: Any, x: np.ndarray) -> np.ndarray:
    """Round to the grid in NumPy, with float32 rounding at each step."""
    steps = x.astype(np.float32) * np.float32(attributes.inverse)
    if attributes.pivot is None:
        steps = np.rint(steps)
    else:
        pivot = np.float32(attributes.pivot)
        away = steps - pivot
        steps = np.copysign(np.floor(np.abs(away) + np.float32(0.5)), away) + pivot
    return np.clip(steps, np.float32(attributes.low), np.float32(attributes.high))


def inverse_of(scale: float) -> float:
    """Return 1 / scale as the float32 number that kernels multiply by."""
    return float(np.float32(1.0 / scale))

"""What ops on quantised values share: real numbers counted in the steps of a grid."""

from __future__ import annotations

import numpy as np

from fourfold.kernel.expression import Expression, convert, floor, maximum, minimum


def count_steps(
    x: Expression, inverse: float | Expression, low: float | Expression, high: float | Expression
) -> Expression:
    """clamp(round(x / scale), low, high), ties up as in LiteRT; in floats, as halves end too soon."""
    steps = floor(convert(x, "float") * inverse + 0.5)
    return minimum(maximum(steps, low), high)


def reference_steps(x: np.ndarray, inverse: float, low: float, high: float) -> np.ndarray:
    """The same in NumPy, with the roundings of f32."""
    steps = np.floor(x.astype(np.float32) * np.float32(inverse) + np.float32(0.5))
    return np.clip(steps, np.float32(low), np.float32(high))


def inverse_of(scale: float) -> float:
    """How many steps one is, as the f32 that kernels multiply by."""
    return float(np.float32(1.0 / scale))

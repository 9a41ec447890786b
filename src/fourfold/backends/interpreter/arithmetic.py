"""Operators, functions and rounding of the kernel language in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

Binary = Callable[[np.ndarray, np.ndarray], np.ndarray]

KINDS: dict[str, np.dtype] = {
    "float": np.dtype(np.float32),
    "half": np.dtype(np.float16),
    "int": np.dtype(np.int32),
    "uint": np.dtype(np.uint32),
    "long": np.dtype(np.int64),
    "bool": np.dtype(np.bool_),
}
_erf = np.frompyfunc(math.erf, 1, 1)


def divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Divide: integers truncate towards zero, floats are divided exactly."""
    if a.dtype.kind == "f":
        return np.true_divide(a, b)
    quotient = np.floor_divide(a, b)
    if quotient.size and quotient.min() < 0:
        quotient = quotient + (np.fmod(a, b) != 0) * (quotient < 0)
    return quotient.astype(a.dtype, copy=False)


def round_away(x: np.ndarray) -> np.ndarray:
    """Round to the nearest integer, halfway cases away from zero."""
    wide = x.astype(np.float64)
    return np.trunc(wide + np.copysign(0.5, wide)).astype(x.dtype)


def erf(x: np.ndarray) -> np.ndarray:
    return np.asarray(_erf(x.astype(np.float64))).astype(x.dtype)


def reciprocal_root(x: np.ndarray) -> np.ndarray:
    return (1 / np.sqrt(x.astype(np.float32))).astype(x.dtype)


BINARY: dict[str, Binary] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": divide,
    "%": np.fmod,  # with the sign of the first
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
    "<<": np.left_shift,
    ">>": np.right_shift,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
    "&&": np.logical_and,
    "||": np.logical_or,
}
FUNCTIONS: dict[str, Callable[..., np.ndarray]] = {
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": reciprocal_root,
    "tanh": np.tanh,
    "floor": np.floor,
    "ceil": np.ceil,
    "round_even": np.rint,
    "round_away": round_away,
    "sin": np.sin,
    "cos": np.cos,
    "atan2": np.arctan2,
    "fmod": np.fmod,
    "erf": erf,
    "pow": np.power,
    "fabs": np.abs,
}


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

"""Arrays for the cases of an op, the same on every run."""

from __future__ import annotations

import math

import numpy as np

from fourfold.op import Case
from fourfold.types import DType, TensorType


def make_inputs(case: Case, seed: int = 0) -> list[np.ndarray | None]:
    """One array for each input of the case, constants included, within its low and high."""
    generator = np.random.default_rng(seed)
    types = [None if text is None else TensorType.parse(text) for text in case.inputs]
    return [None if type is None else _array(generator, type, case) for type in types]


def _array(generator: np.random.Generator, type: TensorType, case: Case) -> np.ndarray:
    if type.dtype is DType.BOOL:
        return generator.integers(0, 2, type.shape).astype(np.bool_)
    if type.dtype.is_integer:
        low, high = math.ceil(case.low), math.floor(case.high)
        return np.asarray(
            generator.integers(low, high, type.shape, endpoint=True), type.dtype.numpy
        )
    return np.asarray(generator.uniform(case.low, case.high, type.shape), type.dtype.numpy)

"""What the comparisons share: two numbers in, a bool out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fourfold.op import Case, Types
from fourfold.op.rules import NUMBERS, Infer, Kinds, broadcast, broadcast_cases
from fourfold.types import DType, TensorType


def compared(op: str, kinds: Kinds = NUMBERS) -> Infer:
    """Two inputs of one element type that broadcast; the result is bool."""
    rule = broadcast(op, kinds)

    def infer(attributes: object, *types: TensorType | None) -> Types:
        (result,) = rule(attributes, *types)
        return (result.with_dtype(DType.BOOL),)

    return infer


def comparison(function: Callable[..., object]) -> Callable[..., np.ndarray]:
    """The reference of a comparison; rank 0 stays an array."""

    def reference(attributes: object, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.asarray(function(a, b), np.bool_)

    return reference


def comparison_cases() -> tuple[Case, ...]:
    """Fractions, and few whole numbers, so that many are equal."""
    return broadcast_cases() + broadcast_cases("i32", low=-2, high=2)

"""Type rule, reference and cases of the comparison ops: two numbers in, a bool out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fourfold.op import Case, Types
from fourfold.op.rules import NUMBERS, Infer, Kinds, broadcast, broadcast_cases
from fourfold.types import DType, TensorType


def comparison_type(op: str, kinds: Kinds = NUMBERS) -> Infer:
    """Return the type rule of a comparison: two inputs of one dtype that broadcast, bool out."""
    rule = broadcast(op, kinds)

    def infer(attributes: object, *types: TensorType | None) -> Types:
        (result,) = rule(attributes, *types)
        return (result.with_dtype(DType.BOOL),)

    return infer


def comparison_reference(function: Callable[..., object]) -> Callable[..., np.ndarray]:
    """Return the reference of a comparison. Results of rank 0 stay arrays."""

    def reference(attributes: object, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.asarray(function(a, b), np.bool_)

    return reference


def comparison_cases() -> tuple[Case, ...]:
    """Return cases with fractions, and with few different integers so that many are equal."""
    return broadcast_cases() + broadcast_cases("i32", low=-2, high=2)

"""y = a / b; integers round toward zero."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression
from fourfold.ops.base import Op
from fourfold.ops.base.division import divide_integers
from fourfold.ops.base.rules import broadcast, broadcast_cases, elementwise


def pointwise(attributes: object, a: Expression, b: Expression) -> Expression:
    return divide_integers(a, b) if a.kind == "int" else a / b


def _reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind == "f":
        fraction: np.ndarray = a / b
        return fraction
    goes_up = (a % b != 0) & ((a < 0) != (b < 0))
    quotient: np.ndarray = a // b + goes_up.astype(a.dtype)
    return quotient


OP = Op(
    name="div",
    infer=broadcast("div"),
    reference=elementwise(_reference),
    pointwise=pointwise,
    cases=broadcast_cases(low=0.5) + broadcast_cases("i32", low=1, high=29, most=6),
)

"""y = 1 / (1 + e**-x)."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression, absolute, exp, where
from fourfold.ops.base import Op
from fourfold.ops.base.rules import elementwise, same_type, unary_cases


def pointwise(attributes: object, x: Expression) -> Expression:
    e = exp(-absolute(x))  # at most 1, so that no x overflows
    return where(x < 0.0, e, 1.0) / (e + 1.0)


def _reference(x: np.ndarray) -> np.ndarray:
    e = np.exp(-np.abs(x))
    y: np.ndarray = np.where(x < 0, e, np.ones_like(e)) / (1 + e)
    return y


OP = Op(
    name="logistic",
    infer=same_type("logistic"),
    reference=elementwise(_reference),
    pointwise=pointwise,
    cases=unary_cases(low=-20.0, high=20.0),
)

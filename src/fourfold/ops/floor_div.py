"""y = floor(a / b)."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression, convert, floor, remainder
from fourfold.ops.base import Op
from fourfold.ops.base.division import divide_integers, safe_divisor
from fourfold.ops.base.rules import broadcast, broadcast_cases, elementwise


def pointwise(attributes: object, a: Expression, b: Expression) -> Expression:
    if a.kind != "int":
        return floor(a / b)
    below = remainder(a, safe_divisor(b)).differs(0) & (a < 0).differs(b < 0)
    return divide_integers(a, b) - convert(below, "int")


def _reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    result: np.ndarray = np.floor(a / b) if a.dtype.kind == "f" else a // b
    return result


OP = Op(
    name="floor_div",
    infer=broadcast("floor_div"),
    reference=elementwise(_reference),
    pointwise=pointwise,
    cases=(
        *broadcast_cases(low=0.5, high=9.0),
        *broadcast_cases("i32", low=1, high=29),
        *broadcast_cases("i32", low=-29, high=-1, most=3),
    ),
)

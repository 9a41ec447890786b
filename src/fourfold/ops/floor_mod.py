"""y = a - b * floor(a / b): the remainder with the sign of b."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression, remainder, where
from fourfold.ops.base import Op
from fourfold.ops.base.division import safe_divisor
from fourfold.ops.base.rules import broadcast, broadcast_cases, elementwise


def pointwise(attributes: object, a: Expression, b: Expression) -> Expression:
    left = remainder(a, safe_divisor(b) if a.kind == "int" else b)
    return where(left.differs(0) & (left < 0).differs(b < 0), left + b, left)


def _reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    left = np.fmod(a, b)
    return np.where((left != 0) & ((left < 0) != (b < 0)), left + b, left)


OP = Op(
    name="floor_mod",
    infer=broadcast("floor_mod"),
    reference=elementwise(_reference),
    pointwise=pointwise,
    cases=(
        *broadcast_cases(low=0.5, high=9.0),
        *broadcast_cases(low=-9.0, high=-0.5, most=3),
        *broadcast_cases("i32", low=1, high=29),
        *broadcast_cases("i32", low=-29, high=-1, most=3),
    ),
)

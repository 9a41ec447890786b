"""y = max(a, b)."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression, maximum
from fourfold.ops.base import Op
from fourfold.ops.base.rules import broadcast, broadcast_cases, elementwise


def pointwise(attributes: object, a: Expression, b: Expression) -> Expression:
    return maximum(a, b)


OP = Op(
    name="maximum",
    infer=broadcast("maximum"),
    reference=elementwise(np.maximum),
    pointwise=pointwise,
    cases=broadcast_cases() + broadcast_cases("i32", low=-9, high=9, most=6),
)

"""y = max(a, b)."""

from __future__ import annotations

import numpy as np

from fourfold.kernel.expression import Expression, maximum
from fourfold.op import Op
from fourfold.op.rules import broadcast, broadcast_cases, elementwise


def pointwise(attributes: object, a: Expression, b: Expression) -> Expression:
    return maximum(a, b)


OP = Op(
    name="maximum",
    infer=broadcast("maximum"),
    reference=elementwise(np.maximum),
    pointwise=pointwise,
    cases=broadcast_cases() + broadcast_cases("i32", low=-9, high=9, most=6),
)

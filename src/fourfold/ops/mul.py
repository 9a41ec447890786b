"""y = a * b."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression
from fourfold.ops.base import Op
from fourfold.ops.base.rules import broadcast, broadcast_cases, elementwise


def pointwise(attributes: object, a: Expression, b: Expression) -> Expression:
    return a * b


OP = Op(
    name="mul",
    infer=broadcast("mul"),
    reference=elementwise(np.multiply),
    pointwise=pointwise,
    cases=broadcast_cases() + broadcast_cases("i32", low=-9, high=9, most=6),
)

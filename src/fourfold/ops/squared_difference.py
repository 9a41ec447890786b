"""y = (a - b)**2."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression
from fourfold.ops.base import Op
from fourfold.ops.base.rules import broadcast, broadcast_cases, elementwise


def pointwise(attributes: object, a: Expression, b: Expression) -> Expression:
    difference = a - b
    return difference * difference


OP = Op(
    name="squared_difference",
    infer=broadcast("squared_difference"),
    reference=elementwise(lambda a, b: np.square(a - b)),
    pointwise=pointwise,
    cases=broadcast_cases() + broadcast_cases("i32", low=-9, high=9, most=6),
)

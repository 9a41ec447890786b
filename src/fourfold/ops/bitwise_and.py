"""y = a & b."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression
from fourfold.codegen.intrinsics import bit_and
from fourfold.ops.base import Op
from fourfold.ops.base.rules import INTEGERS, broadcast, broadcast_cases, elementwise


def pointwise(attributes: object, a: Expression, b: Expression) -> Expression:
    return bit_and(a, b)


OP = Op(
    name="bitwise_and",
    infer=broadcast("bitwise_and", INTEGERS),
    reference=elementwise(np.bitwise_and),
    pointwise=pointwise,
    cases=broadcast_cases("i32", low=-1000, high=1000)
    + broadcast_cases("u8", low=0, high=255, most=3),
)

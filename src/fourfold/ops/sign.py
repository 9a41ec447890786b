"""y = 1 if x > 0, -1 if x < 0, else x."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression, const, where
from fourfold.ops.base import Op
from fourfold.ops.base.rules import NUMBERS, elementwise, same_type, unary_cases


def pointwise(attributes: object, x: Expression) -> Expression:
    one = const(1, x.kind, x.width)
    return where(x > 0, one, where(x < 0, -one, x))


OP = Op(
    name="sign",
    infer=same_type("sign", NUMBERS),
    reference=elementwise(np.sign),
    pointwise=pointwise,
    cases=unary_cases() + unary_cases(dtype="i32", low=-2, high=2),
)

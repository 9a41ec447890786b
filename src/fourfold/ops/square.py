"""y = x * x."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression
from fourfold.ops.base import Op
from fourfold.ops.base.rules import NUMBERS, elementwise, same_type, unary_cases


def pointwise(attributes: object, x: Expression) -> Expression:
    return x * x


OP = Op(
    name="square",
    infer=same_type("square", NUMBERS),
    reference=elementwise(np.square),
    pointwise=pointwise,
    cases=unary_cases() + unary_cases(dtype="i32", low=-9, high=9),
)

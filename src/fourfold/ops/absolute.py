"""y = |x|."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression, absolute
from fourfold.ops.base import Op
from fourfold.ops.base.rules import NUMBERS, elementwise, same_type, unary_cases


def pointwise(attributes: object, x: Expression) -> Expression:
    return absolute(x)


OP = Op(
    name="absolute",
    infer=same_type("absolute", NUMBERS),
    reference=elementwise(np.abs),
    pointwise=pointwise,
    cases=unary_cases() + unary_cases(dtype="i32", low=-9, high=9),
)

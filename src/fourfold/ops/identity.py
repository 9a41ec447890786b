"""y = x, for any dtype."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression
from fourfold.ops.base import Op
from fourfold.ops.base.rules import ANY, elementwise, same_type, unary_cases


def pointwise(attributes: object, x: Expression) -> Expression:
    return x


OP = Op(
    name="identity",
    infer=same_type("identity", ANY),
    reference=elementwise(np.copy),
    pointwise=pointwise,
    cases=unary_cases() + unary_cases(dtype="i32") + unary_cases(dtype="bool"),
)

"""y = x**-0.5."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression, rsqrt
from fourfold.ops.base import Op
from fourfold.ops.base.rules import elementwise, same_type, unary_cases


def pointwise(attributes: object, x: Expression) -> Expression:
    return rsqrt(x)


OP = Op(
    name="rsqrt",
    infer=same_type("rsqrt"),
    reference=elementwise(lambda x: 1 / np.sqrt(x)),
    pointwise=pointwise,
    cases=unary_cases(low=0.1, high=5.0),
)

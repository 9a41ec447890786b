"""y = x if x >= 0 else e**x - 1."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression, exp, minimum, where
from fourfold.ops.base import Op
from fourfold.ops.base.rules import elementwise, same_type, unary_cases


def pointwise(attributes: object, x: Expression) -> Expression:
    return where(x < 0.0, exp(minimum(x, 0.0)) - 1.0, x)


OP = Op(
    name="elu",
    infer=same_type("elu"),
    reference=elementwise(lambda x: np.where(x < 0, np.expm1(np.minimum(x, 0)), x)),
    pointwise=pointwise,
    cases=unary_cases(high=9.0, low=-9.0),
)

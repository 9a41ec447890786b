"""y = e**x."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression, exp
from fourfold.ops.base import Op
from fourfold.ops.base.rules import elementwise, same_type, unary_cases


def pointwise(attributes: object, x: Expression) -> Expression:
    return exp(x)


OP = Op(
    name="exp",
    infer=same_type("exp"),
    reference=elementwise(np.exp),
    pointwise=pointwise,
    cases=unary_cases(),
)

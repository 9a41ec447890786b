"""y = e**x."""

from __future__ import annotations

import numpy as np

from fourfold.kernel.expression import Expression, exp
from fourfold.op import Op
from fourfold.op.rules import elementwise, same_type, unary_cases


def pointwise(attributes: object, x: Expression) -> Expression:
    return exp(x)


OP = Op(
    name="exp",
    infer=same_type("exp"),
    reference=elementwise(np.exp),
    pointwise=pointwise,
    cases=unary_cases(),
)

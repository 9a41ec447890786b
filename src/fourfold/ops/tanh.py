"""y = tanh(x) = (e**x - e**-x) / (e**x + e**-x)."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression, tanh
from fourfold.ops.base import Op
from fourfold.ops.base.rules import elementwise, same_type, unary_cases


def pointwise(attributes: object, x: Expression) -> Expression:
    return tanh(x)


OP = Op(
    name="tanh",
    infer=same_type("tanh"),
    reference=elementwise(np.tanh),
    pointwise=pointwise,
    cases=unary_cases(high=9.0, low=-9.0),
)

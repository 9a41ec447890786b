"""y = x**0.5."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression, sqrt
from fourfold.ops.base import Op
from fourfold.ops.base.rules import elementwise, same_type, unary_cases


def pointwise(attributes: object, x: Expression) -> Expression:
    return sqrt(x)


OP = Op(
    name="sqrt",
    infer=same_type("sqrt"),
    reference=elementwise(np.sqrt),
    pointwise=pointwise,
    cases=unary_cases(low=0.1, high=5.0),
)

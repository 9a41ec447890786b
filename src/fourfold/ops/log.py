"""y = ln(x)."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression, log
from fourfold.ops.base import Op
from fourfold.ops.base.rules import elementwise, same_type, unary_cases


def pointwise(attributes: object, x: Expression) -> Expression:
    return log(x)


OP = Op(
    name="log",
    infer=same_type("log"),
    reference=elementwise(np.log),
    pointwise=pointwise,
    cases=unary_cases(low=0.1, high=5.0),
)

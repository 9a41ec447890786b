"""y = sin(x)."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression, sin
from fourfold.ops.base import Op
from fourfold.ops.base.rules import elementwise, same_type, unary_cases


def pointwise(attributes: object, x: Expression) -> Expression:
    return sin(x)


OP = Op(
    name="sin",
    infer=same_type("sin"),
    reference=elementwise(np.sin),
    pointwise=pointwise,
    cases=unary_cases(),
)

"""y = cos(x)."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression, cos
from fourfold.ops.base import Op
from fourfold.ops.base.rules import elementwise, same_type, unary_cases


def pointwise(attributes: object, x: Expression) -> Expression:
    return cos(x)


OP = Op(
    name="cos",
    infer=same_type("cos"),
    reference=elementwise(np.cos),
    pointwise=pointwise,
    cases=unary_cases(),
)

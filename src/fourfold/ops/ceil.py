"""y = ceil(x)."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression, ceil
from fourfold.ops.base import Op
from fourfold.ops.base.rules import elementwise, same_type, unary_cases


def pointwise(attributes: object, x: Expression) -> Expression:
    return ceil(x)


OP = Op(
    name="ceil",
    infer=same_type("ceil"),
    reference=elementwise(np.ceil),
    pointwise=pointwise,
    cases=unary_cases(),
)

"""y = floor(x)."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression, floor
from fourfold.ops.base import Op
from fourfold.ops.base.rules import elementwise, same_type, unary_cases


def pointwise(attributes: object, x: Expression) -> Expression:
    return floor(x)


OP = Op(
    name="floor",
    infer=same_type("floor"),
    reference=elementwise(np.floor),
    pointwise=pointwise,
    cases=unary_cases(),
)

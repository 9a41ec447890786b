"""y = round(x); ties round to even."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression, round_even
from fourfold.ops.base import Op
from fourfold.ops.base.rules import elementwise, same_type, unary_cases


def pointwise(attributes: object, x: Expression) -> Expression:
    return round_even(x)


OP = Op(
    name="round",
    infer=same_type("round"),
    reference=elementwise(np.rint),
    pointwise=pointwise,
    cases=unary_cases(),
)

"""y = min(max(x, 0), 6)."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression, maximum, minimum
from fourfold.ops.base import Op
from fourfold.ops.base.rules import elementwise, same_type, unary_cases


def pointwise(attributes: object, x: Expression) -> Expression:
    return minimum(maximum(x, 0.0), 6.0)


OP = Op(
    name="relu6",
    infer=same_type("relu6"),
    reference=elementwise(lambda x: np.clip(x, 0, 6)),
    pointwise=pointwise,
    cases=unary_cases(high=9.0, low=-9.0),
    bounds=(0.0, 6.0),
)

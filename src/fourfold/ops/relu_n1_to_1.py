"""y = min(max(x, -1), 1)."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression, maximum, minimum
from fourfold.ops.base import Op
from fourfold.ops.base.rules import elementwise, same_type, unary_cases


def pointwise(attributes: object, x: Expression) -> Expression:
    return minimum(maximum(x, -1.0), 1.0)


OP = Op(
    name="relu_n1_to_1",
    infer=same_type("relu_n1_to_1"),
    reference=elementwise(lambda x: np.clip(x, -1, 1)),
    pointwise=pointwise,
    cases=unary_cases(),
    bounds=(-1.0, 1.0),
)

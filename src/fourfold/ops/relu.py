"""y = max(x, 0)."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression, maximum
from fourfold.ops.base import Op
from fourfold.ops.base.rules import elementwise, same_type, unary_cases


def pointwise(attributes: object, x: Expression) -> Expression:
    return maximum(x, 0.0)


OP = Op(
    name="relu",
    infer=same_type("relu"),
    reference=elementwise(lambda x: np.maximum(x, 0)),
    pointwise=pointwise,
    cases=unary_cases(),
)

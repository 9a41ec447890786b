"""y = a if a >= 0 else a * b, where b is the slope."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression, where
from fourfold.ops.base import Op
from fourfold.ops.base.rules import FLOATS, broadcast, broadcast_cases, elementwise


def pointwise(attributes: object, a: Expression, b: Expression) -> Expression:
    return where(a < 0.0, a * b, a)


OP = Op(
    name="prelu",
    infer=broadcast("prelu", FLOATS),
    reference=elementwise(lambda a, b: np.where(a < 0, a * b, a)),
    pointwise=pointwise,
    cases=broadcast_cases(),
)

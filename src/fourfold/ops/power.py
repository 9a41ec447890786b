"""y = a**b."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression, power
from fourfold.ops.base import Op
from fourfold.ops.base.rules import FLOATS, broadcast, broadcast_cases, elementwise


def pointwise(attributes: object, a: Expression, b: Expression) -> Expression:
    return power(a, b)


OP = Op(
    name="power",
    infer=broadcast("power", FLOATS),
    reference=elementwise(np.power),
    pointwise=pointwise,
    cases=broadcast_cases(low=0.1, high=3.0),
)

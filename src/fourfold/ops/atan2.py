"""y = atan2(a, b): the angle of the point (b, a), from -pi to pi."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression, arc_tangent
from fourfold.ops.base import Op
from fourfold.ops.base.rules import FLOATS, broadcast, broadcast_cases, elementwise


def pointwise(attributes: object, a: Expression, b: Expression) -> Expression:
    return arc_tangent(a, b)


OP = Op(
    name="atan2",
    infer=broadcast("atan2", FLOATS),
    reference=elementwise(np.arctan2),
    pointwise=pointwise,
    cases=broadcast_cases(),
)

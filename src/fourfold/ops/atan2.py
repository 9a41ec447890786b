"""y = atan2(a, b): the angle of the point (b, a), from -pi to pi."""

from __future__ import annotations

import numpy as np

from fourfold.kernel.expression import Expression, arc_tangent
from fourfold.op import Op
from fourfold.op.rules import FLOATS, broadcast, broadcast_cases, elementwise


def pointwise(attributes: object, a: Expression, b: Expression) -> Expression:
    return arc_tangent(a, b)


OP = Op(
    name="atan2",
    infer=broadcast("atan2", FLOATS),
    reference=elementwise(np.arctan2),
    pointwise=pointwise,
    cases=broadcast_cases(),
)

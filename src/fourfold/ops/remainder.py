"""y = a - b * trunc(a / b): the remainder with the sign of a."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression, remainder
from fourfold.ops.base import Op
from fourfold.ops.base.division import safe_divisor
from fourfold.ops.base.rules import broadcast, broadcast_cases, elementwise


def pointwise(attributes: object, a: Expression, b: Expression) -> Expression:
    return remainder(a, safe_divisor(b) if a.kind == "int" else b)


OP = Op(
    name="remainder",
    infer=broadcast("remainder"),
    reference=elementwise(np.fmod),
    pointwise=pointwise,
    cases=(
        *broadcast_cases(low=0.5, high=9.0),
        *broadcast_cases(low=-9.0, high=-0.5, most=3),
        *broadcast_cases("i32", low=1, high=29),
        *broadcast_cases("i32", low=-29, high=-1, most=3),
    ),
)

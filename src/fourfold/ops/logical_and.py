"""y = a and b."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression, convert
from fourfold.ops.base import Op
from fourfold.ops.base.rules import BOOLS, broadcast, broadcast_cases, elementwise


def pointwise(attributes: object, a: Expression, b: Expression) -> Expression:
    return convert(a, "bool") & convert(b, "bool")


OP = Op(
    name="logical_and",
    infer=broadcast("logical_and", BOOLS),
    reference=elementwise(np.logical_and),
    pointwise=pointwise,
    cases=broadcast_cases("bool"),
)

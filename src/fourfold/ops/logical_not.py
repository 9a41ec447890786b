"""y = not x."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression
from fourfold.ops.base import Op
from fourfold.ops.base.rules import BOOLS, elementwise, same_type, unary_cases


def pointwise(attributes: object, x: Expression) -> Expression:
    return x.equals(False)


OP = Op(
    name="logical_not",
    infer=same_type("logical_not", BOOLS),
    reference=elementwise(np.logical_not),
    pointwise=pointwise,
    cases=unary_cases(dtype="bool"),
)

"""y = a <= b."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression
from fourfold.ops.base import Op
from fourfold.ops.base.rules import comparison_cases, comparison_reference, comparison_type


def pointwise(attributes: object, a: Expression, b: Expression) -> Expression:
    return a <= b


OP = Op(
    name="less_equal",
    infer=comparison_type("less_equal"),
    reference=comparison_reference(np.less_equal),
    pointwise=pointwise,
    cases=comparison_cases(),
)

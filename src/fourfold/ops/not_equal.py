"""y = a != b."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression
from fourfold.ops.base import Op
from fourfold.ops.base.rules import (
    BOOLS,
    NUMBERS,
    broadcast_cases,
    comparison_cases,
    comparison_reference,
    comparison_type,
)


def pointwise(attributes: object, a: Expression, b: Expression) -> Expression:
    return a.differs(b)


OP = Op(
    name="not_equal",
    infer=comparison_type("not_equal", NUMBERS | BOOLS),
    reference=comparison_reference(np.not_equal),
    pointwise=pointwise,
    cases=comparison_cases() + broadcast_cases("bool"),
)

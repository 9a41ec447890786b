"""y = a == b."""

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
    return a.equals(b)


OP = Op(
    name="equal",
    infer=comparison_type("equal", NUMBERS | BOOLS),
    reference=comparison_reference(np.equal),
    pointwise=pointwise,
    cases=comparison_cases() + broadcast_cases("bool"),
)

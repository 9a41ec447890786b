"""y = a != b."""

from __future__ import annotations

import numpy as np

from fourfold.kernel.expression import Expression
from fourfold.op import Op
from fourfold.op.comparison import compared, comparison, comparison_cases
from fourfold.op.rules import BOOLS, NUMBERS, broadcast_cases


def pointwise(attributes: object, a: Expression, b: Expression) -> Expression:
    return a.differs(b)


OP = Op(
    name="not_equal",
    infer=compared("not_equal", NUMBERS | BOOLS),
    reference=comparison(np.not_equal),
    pointwise=pointwise,
    cases=comparison_cases() + broadcast_cases("bool"),
)

"""y = a < b."""

from __future__ import annotations

import numpy as np

from fourfold.kernel.expression import Expression
from fourfold.op import Op
from fourfold.op.comparison import compared, comparison, comparison_cases


def pointwise(attributes: object, a: Expression, b: Expression) -> Expression:
    return a < b


OP = Op(
    name="less",
    infer=compared("less"),
    reference=comparison(np.less),
    pointwise=pointwise,
    cases=comparison_cases(),
)

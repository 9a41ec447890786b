"""y = x * min(max(x + 3, 0), 6) / 6."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression, maximum, minimum
from fourfold.ops.base import Op
from fourfold.ops.base.rules import elementwise, same_type, unary_cases


def pointwise(attributes: object, x: Expression) -> Expression:
    # at most 1, so that x * c stays finite in fp16
    c = minimum(maximum(x + 3.0, 0.0), 6.0) * (1 / 6)
    return x * c


OP = Op(
    name="hard_swish",
    infer=same_type("hard_swish"),
    reference=elementwise(lambda x: x * (np.clip(x + 3, 0, 6) / 6)),
    pointwise=pointwise,
    cases=unary_cases(high=9.0, low=-9.0),
)

"""y = erf(x) = 2 / sqrt(pi) * integral of e**-t**2 from 0 to x."""

from __future__ import annotations

import math

import numpy as np

from fourfold.codegen.expression import Expression, erf
from fourfold.ops.base import Op
from fourfold.ops.base.rules import elementwise, same_type, unary_cases

_erf = np.vectorize(math.erf, otypes=[np.float64])


def pointwise(attributes: object, x: Expression) -> Expression:
    return erf(x)


OP = Op(
    name="erf",
    infer=same_type("erf"),
    reference=elementwise(_erf),
    pointwise=pointwise,
    cases=unary_cases(low=-5.0, high=5.0),
)

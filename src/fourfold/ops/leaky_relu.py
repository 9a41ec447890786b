"""y = x if x >= 0 else alpha * x."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.kernel.expression import Expression, where
from fourfold.op import Op
from fourfold.op.rules import same_type, unary_cases


@dataclass(frozen=True)
class LeakyRelu:
    """The slope for negative x."""

    alpha: float


def reference(attributes: LeakyRelu, x: np.ndarray) -> np.ndarray:
    return np.where(x < 0, x * x.dtype.type(attributes.alpha), x)


def pointwise(attributes: LeakyRelu, x: Expression) -> Expression:
    return where(x < 0.0, x * attributes.alpha, x)


OP = Op(
    name="leaky_relu",
    attributes=LeakyRelu,
    infer=same_type("leaky_relu"),
    reference=reference,
    pointwise=pointwise,
    cases=unary_cases(LeakyRelu(0.1)) + unary_cases(LeakyRelu(1.5)),
)

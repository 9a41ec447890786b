"""y = x if x >= 0 else alpha * x."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.codegen.expression import Expression, where
from fourfold.ops.base import Op
from fourfold.ops.base.rules import same_type, unary_cases


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

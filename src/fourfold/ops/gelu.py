"""y = x / 2 * (1 + erf(x / sqrt(2))), or an approximation with tanh."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fourfold.codegen.expression import Expression, erf, tanh
from fourfold.ops.base import Op
from fourfold.ops.base.rules import same_type, unary_cases

_SLOPE = math.sqrt(2 / math.pi)
_erf = np.vectorize(math.erf, otypes=[np.float64])


@dataclass(frozen=True)
class Gelu:
    """`approximate` uses tanh instead of erf."""

    approximate: bool = False


def reference(attributes: Gelu, x: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64)
    if attributes.approximate:
        bend = np.tanh(_SLOPE * (wide + 0.044715 * wide**3))
    else:
        bend = _erf(wide * math.sqrt(0.5))
    return np.asarray(wide * (0.5 + 0.5 * bend), x.dtype)


def pointwise(attributes: Gelu, x: Expression) -> Expression:
    if attributes.approximate:
        bend = tanh(x * _SLOPE * (x * x * 0.044715 + 1.0))
    else:
        bend = erf(x * math.sqrt(0.5))
    return x * (bend * 0.5 + 0.5)


OP = Op(
    name="gelu",
    attributes=Gelu,
    infer=same_type("gelu"),
    reference=reference,
    pointwise=pointwise,
    cases=unary_cases(Gelu(approximate=False), Gelu(approximate=True), low=-9.0, high=9.0),
)

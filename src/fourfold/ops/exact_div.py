"""y = a / b, correctly rounded on every device, so that quantization rounds ties alike."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression, absolute, bitcast, convert, where
from fourfold.codegen.intrinsics import bit_and
from fourfold.ops.base import Op
from fourfold.ops.base.rules import FLOATS, broadcast, broadcast_cases, elementwise

_MAX_CORRECTED = 1e38
_UPPER_HALF = -(1 << 12)  # of the 24 mantissa bits of a float


def pointwise(attributes: object, a: Expression, b: Expression) -> Expression:
    """Correct the quotient: OpenCL allows an error of 2.5 units in the last place."""
    x, y = convert(a, "float"), convert(b, "float")
    return convert(corrected(x / y, x, y), a.kind)


def corrected(quotient: Expression, a: Expression, b: Expression) -> Expression:
    """Return a / b from an approximate quotient.

    Products of split floats are exact, and so is the remainder of `a`, with or without fused
    multiply-add. The remainder divided by b is the error of the quotient.
    """
    q, d = _halves(quotient), _halves(b)
    remainder = a - q[0] * d[0] - q[0] * d[1] - q[1] * d[0] - q[1] * d[1]
    finite = (absolute(quotient) < _MAX_CORRECTED) & (absolute(b) < _MAX_CORRECTED)
    return where(finite, quotient + remainder / b, quotient)


def _halves(x: Expression) -> tuple[Expression, Expression]:
    upper = bitcast(bit_and(bitcast(x, "int"), _UPPER_HALF), "float")
    return upper, x - upper


def _reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    quotient: np.ndarray = a / b
    return quotient


OP = Op(
    name="exact_div",
    infer=broadcast("exact_div", FLOATS),
    reference=elementwise(_reference),
    pointwise=pointwise,
    cases=broadcast_cases(low=0.5),
)

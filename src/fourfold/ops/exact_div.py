"""y = a / b, the nearest float on every device: where quotients are rounded, ties must be ties."""

from __future__ import annotations

import numpy as np

from fourfold.kernel.bits import bit_and
from fourfold.kernel.expression import Expression, absolute, bitcast, convert, where
from fourfold.op import Op
from fourfold.op.rules import FLOATS, broadcast, broadcast_cases, elementwise

_LARGE = 1e38
_UPPER_HALF = -(1 << 12)  # of the 24 bits of a float


def pointwise(attributes: object, a: Expression, b: Expression) -> Expression:
    """OpenCL lets a quotient be 2.5 units of its last place away."""
    x, y = convert(a, "float"), convert(b, "float")
    return convert(corrected(x / y, x, y), a.kind)


def corrected(quotient: Expression, a: Expression, b: Expression) -> Expression:
    """a / b from a quotient that is near it.

    Products of halves of floats are exact, and so is what they leave of `a`, with or without fused
    multiply-add. What that is, divided by b, is missing from the quotient.
    """
    q, d = _halves(quotient), _halves(b)
    rest = a - q[0] * d[0] - q[0] * d[1] - q[1] * d[0] - q[1] * d[1]
    finite = (absolute(quotient) < _LARGE) & (absolute(b) < _LARGE)
    return where(finite, quotient + rest / b, quotient)


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

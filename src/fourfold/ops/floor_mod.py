"""y = a - b * floor(a / b): what is left of a, with the sign of b."""

from __future__ import annotations

import numpy as np

from fourfold.kernel.expression import Expression, remainder, where
from fourfold.op import Op
from fourfold.op.rules import broadcast, broadcast_cases, elementwise


def pointwise(attributes: object, a: Expression, b: Expression) -> Expression:
    # Lanes beyond the last channel hold zeros, and a CPU may stop at a division by one of them.
    rest = remainder(a, where(b.equals(0), 1, b) if a.kind == "int" else b)
    return where(rest.differs(0) & (rest < 0).differs(b < 0), rest + b, rest)


def _reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    rest = np.fmod(a, b)
    return np.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)


OP = Op(
    name="floor_mod",
    infer=broadcast("floor_mod"),
    reference=elementwise(_reference),
    pointwise=pointwise,
    cases=(
        *broadcast_cases(low=0.5, high=9.0),
        *broadcast_cases(low=-9.0, high=-0.5, most=3),
        *broadcast_cases("i32", low=1, high=29),
        *broadcast_cases("i32", low=-29, high=-1, most=3),
    ),
)

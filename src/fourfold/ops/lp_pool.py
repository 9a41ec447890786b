"""y = (sum of |x|**p under a window) ** (1 / p): the p-norm, over any number of axes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.codegen.expression import Expression, absolute, power, sqrt
from fourfold.ops.base import Case, Op
from fourfold.ops.base.rules import FLOATS
from fourfold.ops.base.window import PoolAxes, pool_axes_type, tap_views
from fourfold.ops.kernels.pool import window_pool_variants


@dataclass(frozen=True)
class LpPool(PoolAxes):
    """A pool and its norm: 1 sums absolute values, 2 is the Euclidean norm."""

    p: float = 2.0


def reference(attributes: LpPool, x: np.ndarray) -> np.ndarray:
    powers = (np.abs(tap) ** attributes.p for tap in tap_views(attributes, x, 0.0))
    return np.asarray(np.asarray(sum(powers)) ** (1 / attributes.p), x.dtype)


def combine(attributes: LpPool, total: Expression, value: Expression) -> Expression:
    if attributes.p == 1:
        return total + absolute(value)
    return total + (value * value if attributes.p == 2 else power(absolute(value), attributes.p))


def finish(
    attributes: LpPool, total: Expression, inside: Expression, padded: Expression
) -> Expression:
    if attributes.p == 1:
        return total
    return sqrt(total) if attributes.p == 2 else power(total, 1 / attributes.p)


_ROW, _IMAGE = (
    ((2,), (1,), (1,), (0,), (0,), (6,)),
    ((3, 2), (2, 1), (1, 2), (1, 0), (1, 0), (4, 3)),
)
OP = Op(
    name="lp_pool",
    attributes=LpPool,
    infer=pool_axes_type("lp_pool", FLOATS),
    reference=reference,
    heavy=True,
    variants=window_pool_variants(combine, 0.0, finish),
    cases=(
        Case(("f32[2,7,5]",), LpPool(*_ROW, p=3)),
        Case(("f32[1,7,5,3]",), LpPool(*_IMAGE)),
        Case(("f32[1,7,5,13]",), LpPool(*_IMAGE, p=1)),
        Case(("f32[1,7,5,8]",), LpPool(*_IMAGE, p=4)),
    ),
)

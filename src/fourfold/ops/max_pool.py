"""y = the largest x under a window over any number of axes, its taps perhaps apart."""

from __future__ import annotations

from functools import reduce

import numpy as np

from fourfold.kernel.expression import Expression, maximum
from fourfold.kernels.window_pool import window_pools
from fourfold.op import Case, Op
from fourfold.op.pooling import Pool, pools_axes, tap_views
from fourfold.op.rules import NUMBERS


def reference(attributes: Pool, x: np.ndarray) -> np.ndarray:
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    return reduce(np.maximum, tap_views(attributes, x, lowest))


def combine(attributes: Pool, total: Expression, value: Expression) -> Expression:
    return maximum(total, value)


OP = Op(
    name="max_pool",
    attributes=Pool,
    infer=pools_axes("max_pool", NUMBERS),
    reference=reference,
    heavy=True,
    variants=window_pools(combine, float("-inf")),
    cases=(
        Case(("f32[2,7,5]",), Pool((2,), (1,), (1,), (0,), (0,), (6,))),
        Case(("f32[1,7,5,3]",), Pool((3, 2), (2, 2), (1, 1), (1, 0), (1, 0), (4, 3)), high=-0.5),
        Case(("f32[1,7,9,13]",), Pool((2, 3), (1, 2), (3, 2), (0, 1), (0, 1), (4, 4))),
        Case(
            ("f32[1,5,4,7,3]",),
            Pool((2, 2, 3), (2, 1, 2), (2, 1, 1), (0,) * 3, (0,) * 3, (2, 3, 3)),
        ),
        Case(
            ("i32[1,5,5,3]",),
            Pool((3, 3), (1, 1), (1, 1), (1, 1), (1, 1), (5, 5)),
            low=-29,
            high=29,
        ),
    ),
)

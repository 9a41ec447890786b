"""y = maximum of x under a window over any number of axes, with dilation."""

from __future__ import annotations

from functools import reduce

import numpy as np

from fourfold.codegen.expression import Expression, maximum
from fourfold.ops.base import Case, Op
from fourfold.ops.base.rules import NUMBERS
from fourfold.ops.base.window import PoolAxes, pool_axes_type, tap_views
from fourfold.ops.kernels.pool import window_pool_variants


def reference(attributes: PoolAxes, x: np.ndarray) -> np.ndarray:
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    return reduce(np.maximum, tap_views(attributes, x, lowest))


def combine(attributes: PoolAxes, total: Expression, value: Expression) -> Expression:
    return maximum(total, value)


OP = Op(
    name="max_pool",
    attributes=PoolAxes,
    infer=pool_axes_type("max_pool", NUMBERS),
    reference=reference,
    heavy=True,
    variants=window_pool_variants(combine, float("-inf")),
    cases=(
        Case(("f32[2,7,5]",), PoolAxes((2,), (1,), (1,), (0,), (0,), (6,))),
        Case(
            ("f32[1,7,5,3]",), PoolAxes((3, 2), (2, 2), (1, 1), (1, 0), (1, 0), (4, 3)), high=-0.5
        ),
        Case(("f32[1,7,9,13]",), PoolAxes((2, 3), (1, 2), (3, 2), (0, 1), (0, 1), (4, 4))),
        Case(
            ("f32[1,5,4,7,3]",),
            PoolAxes((2, 2, 3), (2, 1, 2), (2, 1, 1), (0,) * 3, (0,) * 3, (2, 3, 3)),
        ),
        Case(
            ("i32[1,5,5,3]",),
            PoolAxes((3, 3), (1, 1), (1, 1), (1, 1), (1, 1), (5, 5)),
            low=-29,
            high=29,
        ),
    ),
)

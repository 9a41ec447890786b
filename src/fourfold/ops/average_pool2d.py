"""y = mean of x under a window, counting only elements inside the image."""

from __future__ import annotations

import operator

import numpy as np

from fourfold.ops.base import Case, Op
from fourfold.ops.base.rules import FLOATS
from fourfold.ops.base.window import Padding, Pool2d, pool2d_type, pool_window, windows
from fourfold.ops.kernels.pool import pool_variants


def reference(attributes: Pool2d, x: np.ndarray) -> np.ndarray:
    window = pool_window(attributes)
    counts = windows(np.ones_like(x[:1, :, :, :1]), window).sum(axis=(4, 5))
    y: np.ndarray = windows(x, window).sum(axis=(4, 5)) / counts
    return y


OP = Op(
    name="average_pool2d",
    attributes=Pool2d,
    infer=pool2d_type("average_pool2d", FLOATS),
    reference=reference,
    heavy=True,
    variants=pool_variants(operator.add, 0.0, average=True),
    cases=(
        Case(("f32[1,1,1,1]",), Pool2d((1, 1), (1, 1))),
        Case(("f32[2,7,7,13]",), Pool2d((7, 7), (1, 1))),
        Case(("f32[2,7,11,5]",), Pool2d((3, 3), (2, 2), Padding(1, 1, 1, 1))),
        Case(("f32[1,5,7,3]",), Pool2d((2, 3), (1, 2), Padding(0, 1, 1, 1))),
        Case(("f32[1,11,13,8]",), Pool2d((2, 2), (2, 2))),
        Case(("f32[1,2,3,1]",), Pool2d((5, 5), (1, 1), Padding(2, 2, 2, 2))),
    ),
)

"""y = mean of x over the axes."""

from __future__ import annotations

import operator

import numpy as np

from fourfold.ops.base import Op
from fourfold.ops.base.rules import FLOATS, Reduce, reduce_cases, reduced_type
from fourfold.ops.kernels.reduce import reduce_variants


def reference(attributes: Reduce, x: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64)
    return np.asarray(np.mean(wide, axis=attributes.axes, keepdims=attributes.keep_dims), x.dtype)


OP = Op(
    name="mean",
    attributes=Reduce,
    infer=reduced_type("mean", FLOATS),
    reference=reference,
    variants=reduce_variants(operator.add, 0.0, lambda total, count: total * (1.0 / count)),
    cases=reduce_cases(),
)

"""y = sum of x over the axes."""

from __future__ import annotations

import operator

import numpy as np

from fourfold.ops.base import Op
from fourfold.ops.base.rules import NUMBERS, Reduce, reduce_cases, reduced_type
from fourfold.ops.kernels.reduce import reduce_variants


def reference(attributes: Reduce, x: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64) if x.dtype.kind == "f" else x
    return np.asarray(np.sum(wide, axis=attributes.axes, keepdims=attributes.keep_dims), x.dtype)


OP = Op(
    name="sum",
    attributes=Reduce,
    infer=reduced_type("sum", NUMBERS),
    reference=reference,
    variants=reduce_variants(operator.add, 0.0),
    cases=reduce_cases() + reduce_cases("i32"),
)

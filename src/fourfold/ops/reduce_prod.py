"""y = product of x over the axes."""

from __future__ import annotations

import operator

import numpy as np

from fourfold.ops.base import Op
from fourfold.ops.base.rules import NUMBERS, Reduce, reduce_cases, reduced_type
from fourfold.ops.kernels.reduce import reduce_variants


def reference(attributes: Reduce, x: np.ndarray) -> np.ndarray:
    return np.asarray(np.prod(x, axis=attributes.axes, keepdims=attributes.keep_dims), x.dtype)


OP = Op(
    name="reduce_prod",
    attributes=Reduce,
    infer=reduced_type("reduce_prod", NUMBERS),
    reference=reference,
    variants=reduce_variants(operator.mul, 1.0),
    cases=reduce_cases(low=0.5, high=1.5) + reduce_cases("i32", low=-1, high=1),
)

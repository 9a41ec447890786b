"""y = product of x over the axes."""

from __future__ import annotations

import operator

import numpy as np

from fourfold.kernels.reduce import reduce_variants
from fourfold.op import Op
from fourfold.op.rules import NUMBERS, Reduce, reduce_cases, reduced_type


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

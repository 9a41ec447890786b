"""y = any of x over the axes."""

from __future__ import annotations

import operator

import numpy as np

from fourfold.ops.base import Op
from fourfold.ops.base.rules import BOOLS, Reduce, reduce_cases, reduced_type
from fourfold.ops.kernels.reduce import reduce_variants


def reference(attributes: Reduce, x: np.ndarray) -> np.ndarray:
    return np.asarray(np.any(x, axis=attributes.axes, keepdims=attributes.keep_dims))


OP = Op(
    name="reduce_any",
    attributes=Reduce,
    infer=reduced_type("reduce_any", BOOLS),
    reference=reference,
    variants=reduce_variants(operator.or_, 0.0),
    cases=reduce_cases("bool"),
)

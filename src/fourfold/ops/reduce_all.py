"""y = all of x over the axes."""

from __future__ import annotations

import operator

import numpy as np

from fourfold.kernels.reduce import reduce_variants
from fourfold.op import Op
from fourfold.op.rules import BOOLS, Reduce, reduce_cases, reduced_type


def reference(attributes: Reduce, x: np.ndarray) -> np.ndarray:
    return np.asarray(np.all(x, axis=attributes.axes, keepdims=attributes.keep_dims))


OP = Op(
    name="reduce_all",
    attributes=Reduce,
    infer=reduced_type("reduce_all", BOOLS),
    reference=reference,
    variants=reduce_variants(operator.and_, 1.0),
    cases=reduce_cases("bool"),
)

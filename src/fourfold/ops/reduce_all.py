"""y = all of x over the axes."""

from __future__ import annotations

import operator

import numpy as np

from fourfold.ops.base import Op
from fourfold.ops.base.rules import BOOLS, Reduce, reduce_cases, reduced_type
from fourfold.ops.kernels.reduce import reduce_variants


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

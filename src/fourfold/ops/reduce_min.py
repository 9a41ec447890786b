"""y = minimum of x over the axes."""

from __future__ import annotations

import numpy as np

from fourfold.kernel.expression import minimum
from fourfold.kernels.reduce import reduce_variants
from fourfold.op import Op
from fourfold.op.rules import NUMBERS, Reduce, reduce_cases, reduced_type


def reference(attributes: Reduce, x: np.ndarray) -> np.ndarray:
    return np.asarray(np.min(x, axis=attributes.axes, keepdims=attributes.keep_dims))


OP = Op(
    name="reduce_min",
    attributes=Reduce,
    infer=reduced_type("reduce_min", NUMBERS),
    reference=reference,
    variants=reduce_variants(minimum, float("inf")),
    cases=reduce_cases() + reduce_cases("i32"),
)

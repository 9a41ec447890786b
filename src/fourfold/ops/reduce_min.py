"""y = minimum of x over the axes."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import minimum
from fourfold.ops.base import Op
from fourfold.ops.base.rules import NUMBERS, Reduce, reduce_cases, reduced_type
from fourfold.ops.kernels.reduce import reduce_variants


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

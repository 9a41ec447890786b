"""y = all of x over the axes."""

from __future__ import annotations

import operator

import numpy as np

from fourfold.kernels.reduce import reduces
from fourfold.op import Op
from fourfold.op.rules import BOOLS, Reduce, reduce_cases, reduced


def reference(attributes: Reduce, x: np.ndarray) -> np.ndarray:
    return np.asarray(np.all(x, axis=attributes.axes, keepdims=attributes.keep_dims))


OP = Op(
    name="reduce_all",
    attributes=Reduce,
    infer=reduced("reduce_all", BOOLS),
    reference=reference,
    variants=reduces(operator.and_, 1.0),
    cases=reduce_cases("bool"),
)

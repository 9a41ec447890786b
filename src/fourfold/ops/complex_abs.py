"""y = sqrt(re(x)^2 + im(x)^2)."""

from __future__ import annotations

import numpy as np

from fourfold.ops.base import Case, Op, Types
from fourfold.ops.base.rules import require_kind, takes
from fourfold.types import DType, TensorType


@takes("complex_abs", 1)
def infer(attributes: object, x: TensorType) -> Types:
    require_kind("complex_abs", frozenset({DType.C64}), x)
    return (TensorType(DType.F32, x.shape),)


OP = Op(
    name="complex_abs",
    infer=infer,
    reference=lambda attributes, x: np.abs(x),
    cases=(Case(("c64[3,7]",)),),
)

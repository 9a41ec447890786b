"""y[i] = product of x[0] to x[i] along the axis; optionally without x[i], or from the end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.ops.base import Op
from fourfold.ops.kernels.running import (
    PRODUCT,
    RunningTotal,
    running_cases,
    running_reference,
    running_type,
    running_variants,
)


@dataclass(frozen=True)
class Cumprod(RunningTotal):
    """Attributes of a cumulative product."""


OP = Op(
    name="cumprod",
    attributes=Cumprod,
    infer=running_type("cumprod"),
    reference=running_reference(PRODUCT, np.multiply),
    variants=running_variants(PRODUCT),
    cases=running_cases(Cumprod),
)

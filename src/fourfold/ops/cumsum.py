"""y[i] = sum of x[0] to x[i] along the axis; optionally without x[i], or from the end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.ops.base import Op
from fourfold.ops.kernels.running import (
    SUM,
    RunningTotal,
    running_cases,
    running_reference,
    running_type,
    running_variants,
)


@dataclass(frozen=True)
class Cumsum(RunningTotal):
    """Attributes of a cumulative sum."""


OP = Op(
    name="cumsum",
    attributes=Cumsum,
    infer=running_type("cumsum"),
    reference=running_reference(SUM, np.add),
    variants=running_variants(SUM),
    cases=running_cases(Cumsum),
)

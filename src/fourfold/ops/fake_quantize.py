"""y = min(max(round(x / scale), low), high) * scale: x rounded to a quantization grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fourfold.codegen.expression import Expression
from fourfold.ops.base import Op
from fourfold.ops.base.rounding import inverse_of, reference_round_to_grid, round_to_grid
from fourfold.ops.base.rules import same_type, unary_cases


@dataclass(frozen=True)
class FakeQuantize:
    """A grid around zero: its step `scale`, and its first and last value in steps.

    `step` is the step of the result if it differs; 1 returns the number of steps. Ties round to
    even, or away from `pivot`.
    """

    PARAMETERS: ClassVar = ("inverse", "low", "high", "distance")

    scale: float
    low: int
    high: int
    step: float | None = None
    pivot: int | None = None

    @property
    def distance(self) -> float:
        return self.scale if self.step is None else self.step

    @property
    def counts(self) -> bool:
        """True if results are integers that the rounding function of a prelude can compute."""
        return self.distance == 1.0 and self.pivot in (None, self.low)

    @property
    def inverse(self) -> float:
        return inverse_of(self.scale)


def reference(attributes: FakeQuantize, x: np.ndarray) -> np.ndarray:
    steps = reference_round_to_grid(attributes, x)
    return np.asarray(steps * np.float32(attributes.distance), x.dtype)


def pointwise(attributes: FakeQuantize, x: Expression) -> Expression:
    return round_to_grid(attributes, x) * attributes.distance


OP = Op(
    name="fake_quantize",
    attributes=FakeQuantize,
    infer=same_type("fake_quantize"),
    reference=reference,
    pointwise=pointwise,
    cases=unary_cases(
        FakeQuantize(0.02, -128, 127),
        FakeQuantize(0.0001, -32768, 32767),
        FakeQuantize(0.02, 0, 255, 1.0),
        FakeQuantize(0.5, -9, 9, pivot=-2),
    ),
)

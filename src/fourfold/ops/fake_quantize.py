"""y = min(max(round(x / scale), low), high) * scale: the real numbers that integers can stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fourfold.kernel.expression import Expression
from fourfold.op import Op
from fourfold.ops._rules import same_type, unary_cases
from fourfold.ops._steps import count_steps, inverse_of, reference_steps


@dataclass(frozen=True)
class FakeQuantize:
    """A grid around zero: how far apart its numbers are, and its first and last in steps."""

    PARAMETERS: ClassVar = ("scale", "inverse", "low", "high")

    scale: float
    low: int
    high: int

    @property
    def inverse(self) -> float:
        return inverse_of(self.scale)


def reference(attributes: FakeQuantize, x: np.ndarray) -> np.ndarray:
    steps = reference_steps(x, attributes.inverse, attributes.low, attributes.high)
    return np.asarray(steps * np.float32(attributes.scale), x.dtype)


def pointwise(attributes: FakeQuantize, x: Expression) -> Expression:
    steps = count_steps(x, attributes.inverse, attributes.low, attributes.high)
    return steps * attributes.scale


OP = Op(
    name="fake_quantize",
    attributes=FakeQuantize,
    infer=same_type("fake_quantize"),
    reference=reference,
    pointwise=pointwise,
    cases=unary_cases(FakeQuantize(0.02, -128, 127), FakeQuantize(0.0001, -32768, 32767)),
)

"""y = min(max(round(x / scale), low), high) + zero_point: x as integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fourfold.codegen.expression import Expression, convert
from fourfold.ops.base import Case, Op, Types
from fourfold.ops.base.rounding import inverse_of, reference_round_to_grid, round_to_grid
from fourfold.ops.base.rules import FLOATS, require, require_kind, takes, unary_cases
from fourfold.types import DType, TensorType


@dataclass(frozen=True)
class Quantize:
    """A grid as in fake_quantize, the integer that represents zero, and the dtype of the result."""

    PARAMETERS: ClassVar = ("inverse", "low", "high", "zero_point")

    scale: float
    low: int
    high: int
    zero_point: int
    to: DType
    pivot: int | None = None

    @property
    def inverse(self) -> float:
        return inverse_of(self.scale)


@takes("quantize", 1)
def infer(attributes: Quantize, x: TensorType) -> Types:
    require_kind("quantize", FLOATS, x)
    to = attributes.to
    fits = to.is_integer and to.has_numpy
    require(fits, "quantize", f"{to.value} is not an integer dtype that it can produce")
    return (x.with_dtype(to),)


def reference(attributes: Quantize, x: np.ndarray) -> np.ndarray:
    steps = reference_round_to_grid(attributes, x)
    return np.asarray((steps + np.float32(attributes.zero_point)).astype(attributes.to.numpy))


def pointwise(attributes: Quantize, x: Expression) -> Expression:
    return convert(round_to_grid(attributes, x) + attributes.zero_point, "int")


OP = Op(
    name="quantize",
    attributes=Quantize,
    infer=infer,
    reference=reference,
    pointwise=pointwise,
    cases=(
        *unary_cases(Quantize(0.02, 0, 255, 0, DType.U8)),
        *unary_cases(Quantize(0.017, -100, 155, -28, DType.I8)),
        Case(("f32[2,5,7,12]",), Quantize(0.0001, -32768, 32767, 0, DType.I16)),
        Case(("f32[3,5]",), Quantize(0.01, -400, 400, 7, DType.I32)),
    ),
)

"""y = x converted to another dtype: fractions are truncated, and bool means x != 0."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.codegen.expression import Expression, convert
from fourfold.ops.base import Case, Op, Types
from fourfold.ops.base.rules import BOOLS, NUMBERS, require, require_kind, takes, unary_cases
from fourfold.types import DType, TensorType


@dataclass(frozen=True)
class Cast:
    """The dtype of the result."""

    to: DType


@takes("cast", 1)
def infer(attributes: Cast, x: TensorType) -> Types:
    require_kind("cast", NUMBERS | BOOLS, x)
    supported = attributes.to in NUMBERS | BOOLS
    require(supported, "cast", f"it cannot convert to {attributes.to.value}")
    return (x.with_dtype(attributes.to),)


def reference(attributes: Cast, x: np.ndarray) -> np.ndarray:
    return x.astype(attributes.to.numpy)


def pointwise(attributes: Cast, x: Expression) -> Expression:
    to = attributes.to
    return convert(x, "float" if to.is_float else "int" if to.is_integer else "bool")


OP = Op(
    name="cast",
    attributes=Cast,
    infer=infer,
    reference=reference,
    pointwise=pointwise,
    cases=(
        *unary_cases(Cast(DType.I32), low=-29.0, high=29.0),
        *unary_cases(Cast(DType.F32), dtype="i32", low=-29, high=29),
        Case(("f32[2,3,5]",), Cast(DType.F32)),
        Case(("bool[2,3,5]",), Cast(DType.F32)),
        Case(("bool[3,7]",), Cast(DType.I32)),
        Case(("i32[3,7]",), Cast(DType.BOOL), low=-1, high=1),
        Case(("f32[3,7]",), Cast(DType.BOOL)),
    ),
)

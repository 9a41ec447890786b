"""y = a if condition else b."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression, where
from fourfold.ops.base import Case, Op, Types
from fourfold.ops.base.rules import BOOLS, NUMBERS, require_kind, stretched, takes
from fourfold.types import TensorType


@takes("select", 3)
def infer(attributes: object, condition: TensorType, a: TensorType, b: TensorType) -> Types:
    require_kind("select", BOOLS, condition)
    require_kind("select", NUMBERS | BOOLS, a, b)
    return (a.with_shape(*stretched("select", condition.shape, a.shape, b.shape)),)


def reference(
    attributes: object, condition: np.ndarray, a: np.ndarray, b: np.ndarray
) -> np.ndarray:
    return np.where(condition, a, b)


def pointwise(
    attributes: object, condition: Expression, a: Expression, b: Expression
) -> Expression:
    return where(condition, a, b)


OP = Op(
    name="select",
    infer=infer,
    reference=reference,
    pointwise=pointwise,
    cases=(
        Case(("bool[]", "f32[]", "f32[]")),
        Case(("bool[7]", "f32[7]", "f32[7]")),
        Case(("bool[3,5]", "f32[5]", "f32[3,1]")),
        Case(("bool[2,5,7,13]", "f32[2,5,7,13]", "f32[2,5,7,13]")),
        Case(("bool[2,1,1,1]", "f32[2,5,7,13]", "f32[13]")),
        Case(("bool[]", "f32[2,3,5]", "f32[2,3,5]")),
        Case(("bool[2,1,3,5,7]", "f32[3,5,7]", "f32[]")),
        Case(("bool[3,11]", "i32[3,11]", "i32[1]")),
        Case(("bool[3,11]", "bool[3,11]", "bool[11]")),
        Case(("bool[3,5]", "f32[3,5]", "f32[]"), constants=(2,)),
        Case(("bool[3,5]", "f32[3,5]", "f32[5]"), constants=(0,)),
    ),
)

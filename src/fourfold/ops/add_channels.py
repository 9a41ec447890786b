"""y = a + b, where b may have fewer channels than a; missing channels are zeros."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression
from fourfold.ops.base import Case, Op, Types
from fourfold.ops.base.rules import NUMBERS, require, require_kind, takes
from fourfold.types import TensorType


@takes("add_channels", 2)
def infer(attributes: object, a: TensorType, b: TensorType) -> Types:
    require_kind("add_channels", NUMBERS, a, b)
    same = 0 < a.rank == b.rank and a.shape[:-1] == b.shape[:-1]
    require(
        same and 1 < b.channels <= a.channels,
        "add_channels",
        f"{b} cannot be added to the first channels of {a}",
    )
    return (a,)


def reference(attributes: object, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    y = a.copy()
    y[..., : b.shape[-1]] += b
    return y


def pointwise(attributes: object, a: Expression, b: Expression) -> Expression:
    return a + b


OP = Op(
    name="add_channels",
    infer=infer,
    reference=reference,
    pointwise=pointwise,
    cases=(
        Case(("f32[7]", "f32[5]")),
        Case(("f32[3,5]", "f32[3,2]")),
        Case(("f32[3,13]", "f32[3,3]")),
        Case(("f32[2,5,7,13]", "f32[2,5,7,13]")),
        Case(("f32[2,5,7,29]", "f32[2,5,7,11]")),
        Case(("f32[1,11,7,24]", "f32[1,11,7,16]")),
        Case(("f32[1,3,5,37]", "f32[1,3,5,8]"), constants=(1,)),
        Case(("f32[2,1,3,5,7]", "f32[2,1,3,5,3]")),
        Case(("i32[3,11]", "i32[3,4]"), low=-9, high=9),
    ),
)

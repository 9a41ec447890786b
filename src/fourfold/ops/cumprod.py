"""y[i] = the product of x[0] to x[i] along the axis, or without x[i], or from the end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.kernel.context import NodeContext
from fourfold.kernels.running import PRODUCT, RunningTotal, build_running, running_reference
from fourfold.op import Case, Op, Types, Variant
from fourfold.op.rules import NUMBERS, require_axis, require_kind, takes
from fourfold.types import TensorType


@dataclass(frozen=True)
class Cumprod(RunningTotal):
    """Of products."""


@takes("cumprod", 1)
def infer(attributes: Cumprod, x: TensorType) -> Types:
    require_kind("cumprod", NUMBERS, x)
    require_axis("cumprod", attributes.axis, x.rank)
    return (x,)


def reference(attributes: Cumprod, x: np.ndarray) -> np.ndarray:
    return running_reference(attributes, np.multiply, 1.0, x)


def build(context: NodeContext) -> None:
    assert isinstance(context.attributes, Cumprod)
    build_running(context, context.attributes, PRODUCT)


OP = Op(
    name="cumprod",
    attributes=Cumprod,
    infer=infer,
    reference=reference,
    variants=(Variant("walk", build),),
    cases=(
        Case(("f32[7]",), Cumprod(0)),
        Case(("f32[3,5]",), Cumprod(1, exclusive=True)),
        Case(("f32[3,5]",), Cumprod(1, reverse=True)),
        Case(("f32[3,13]",), Cumprod(1, exclusive=True, reverse=True), low=-1.5, high=1.5),
        Case(("f32[3,5]",), Cumprod(0)),
        Case(("f32[2,5,7,13]",), Cumprod(1)),
        Case(("f32[2,5,7,13]",), Cumprod(2, exclusive=True)),
        Case(("f32[2,5,7,3]",), Cumprod(0, reverse=True)),
        Case(("f32[2,1,3,5,7]",), Cumprod(3, exclusive=True, reverse=True)),
        Case(("i32[3,11]",), Cumprod(1, exclusive=True), low=-2, high=3),
        Case(("i32[3,11]",), Cumprod(0, exclusive=True), low=-29, high=29),
    ),
)

"""y[i] = the sum of x[0] to x[i] along the axis, or without x[i], or from the end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.kernel.context import NodeContext
from fourfold.kernels.running import SUM, RunningTotal, build_running, running_reference
from fourfold.op import Case, Op, Types, Variant
from fourfold.op.rules import NUMBERS, require_axis, require_kind, takes
from fourfold.types import TensorType


@dataclass(frozen=True)
class Cumsum(RunningTotal):
    """Of sums."""


@takes("cumsum", 1)
def infer(attributes: Cumsum, x: TensorType) -> Types:
    require_kind("cumsum", NUMBERS, x)
    require_axis("cumsum", attributes.axis, x.rank)
    return (x,)


def reference(attributes: Cumsum, x: np.ndarray) -> np.ndarray:
    return running_reference(attributes, np.add, 0.0, x)


def build(context: NodeContext) -> None:
    assert isinstance(context.attributes, Cumsum)
    build_running(context, context.attributes, SUM)


OP = Op(
    name="cumsum",
    attributes=Cumsum,
    infer=infer,
    reference=reference,
    variants=(Variant("walk", build),),
    cases=(
        Case(("f32[7]",), Cumsum(0)),
        Case(("f32[3,5]",), Cumsum(1, exclusive=True)),
        Case(("f32[3,5]",), Cumsum(1, reverse=True)),
        Case(("f32[3,13]",), Cumsum(1, exclusive=True, reverse=True)),
        Case(("f32[3,5]",), Cumsum(0)),
        Case(("f32[2,5,7,13]",), Cumsum(1)),
        Case(("f32[2,5,7,13]",), Cumsum(2, exclusive=True)),
        Case(("f32[2,5,7,3]",), Cumsum(0, reverse=True)),
        Case(("f32[2,1,3,5,7]",), Cumsum(3, exclusive=True, reverse=True)),
        Case(("i32[3,11]",), Cumsum(1, exclusive=True), low=-29, high=29),
        Case(("i32[3,11]",), Cumsum(0, exclusive=True), low=-29, high=29),
    ),
)

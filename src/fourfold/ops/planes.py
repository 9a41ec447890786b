"""y[n,...,c] = x[n,c,...]: pixels with their channels, from an image that has these apart."""

from __future__ import annotations

import math

import numpy as np

from fourfold.graph import Node
from fourfold.kernel.expression import Expression
from fourfold.kernels.move import moves
from fourfold.op import Alias, Case, Op, Types
from fourfold.op.rules import ANY, require, require_kind, takes
from fourfold.types import TensorType

MOST_CHANNELS = 3  # that are read in place: a slice of four would lie on both sides of a gap


@takes("planes", 1)
def infer(attributes: object, x: TensorType) -> Types:
    require_kind("planes", ANY, x)
    require(x.rank > 2, "planes", f"{x} is not an image")
    return (x.with_shape(x.shape[0], *x.shape[2:], x.shape[1]),)


def reference(attributes: object, x: np.ndarray) -> np.ndarray:
    return np.moveaxis(x, 1, -1)


def source(
    attributes: object, at: list[Expression], src: TensorType, dst: TensorType
) -> tuple[list[Expression], Expression | None]:
    return [at[0], at[-1], *at[1:-1]], None


def view(node: Node, inputs: Types, outputs: Types) -> Alias | None:
    """No kernel for one image of few channels: who reads the result reads the planes."""
    (x,) = inputs
    if x.shape[0] != 1 or not 0 < x.shape[1] <= MOST_CHANNELS:
        return None
    return Alias("planes", plane=math.prod(x.shape[2:]), row=x.shape[-1])


OP = Op(
    name="planes",
    infer=infer,
    reference=reference,
    variants=moves(source),
    view=view,
    cases=(
        Case(("f32[1,3,5]",)),
        Case(("f32[1,3,5,7]",)),
        Case(("f32[2,3,5,7]",)),
        Case(("f32[1,13,5,7]",)),
        Case(("i32[1,2,11,3]",)),
        Case(("f32[1,3,2,5,7]",)),
    ),
)

"""y[n,c,...] = x[n,...,c]: channels-last images to channels-first."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression
from fourfold.graph import Node
from fourfold.ops.base import Alias, Case, Op, Types
from fourfold.ops.base.rules import ANY, require, require_kind, takes
from fourfold.ops.kernels.move import move_variants
from fourfold.types import TensorType


@takes("pixels_to_planes", 1)
def infer(attributes: object, x: TensorType) -> Types:
    require_kind("pixels_to_planes", ANY, x)
    require(x.rank > 2, "pixels_to_planes", f"{x} is not an image")
    return (x.with_shape(x.shape[0], x.shape[-1], *x.shape[1:-1]),)


def reference(attributes: object, x: np.ndarray) -> np.ndarray:
    return np.moveaxis(x, -1, 1)


def source(
    attributes: object, at: list[Expression], src: TensorType, dst: TensorType
) -> tuple[list[Expression], Expression | None]:
    return [at[0], *at[2:], at[1]], None


def view(node: Node, inputs: Types, outputs: Types) -> Alias | None:
    """Return an alias without a kernel: the producer of the input writes the planes."""
    (planes,) = outputs
    return Alias("write planes", planes=planes) if planes.elements else None


OP = Op(
    name="pixels_to_planes",
    infer=infer,
    reference=reference,
    variants=move_variants(source),
    view=view,
    cases=(
        Case(("f32[1,5,3]",)),
        Case(("f32[1,5,7,3]",)),
        Case(("f32[2,5,7,3]",)),
        Case(("f32[1,5,7,13]",)),
        Case(("f32[3,5,7,13]",)),
        Case(("i32[1,11,3,2]",)),
        Case(("f32[1,2,5,7,3]",)),
    ),
)

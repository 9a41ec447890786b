"""y[n,...,c] = x[n,c,...]: channels-first images to channels-last."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression
from fourfold.graph import Node
from fourfold.ops.base import Alias, Case, Op, Types
from fourfold.ops.base.rules import ANY, require, require_kind, takes
from fourfold.ops.kernels.move import move_variants
from fourfold.types import TensorType


@takes("planes_to_pixels", 1)
def infer(attributes: object, x: TensorType) -> Types:
    require_kind("planes_to_pixels", ANY, x)
    require(x.rank > 2, "planes_to_pixels", f"{x} is not an image")
    return (x.with_shape(x.shape[0], *x.shape[2:], x.shape[1]),)


def reference(attributes: object, x: np.ndarray) -> np.ndarray:
    return np.moveaxis(x, 1, -1)


def source(
    attributes: object, at: list[Expression], src: TensorType, dst: TensorType
) -> tuple[list[Expression], Expression | None]:
    return [at[0], at[-1], *at[1:-1]], None


def view(node: Node, inputs: Types, outputs: Types) -> Alias | None:
    """Return an alias without a kernel: readers of the result read the planes."""
    (planes,) = inputs
    return Alias("read planes", planes=planes) if planes.elements else None


OP = Op(
    name="planes_to_pixels",
    infer=infer,
    reference=reference,
    variants=move_variants(source),
    view=view,
    cases=(
        Case(("f32[1,3,5]",)),
        Case(("f32[1,3,5,7]",)),
        Case(("f32[2,3,5,7]",)),
        Case(("f32[1,13,5,7]",)),
        Case(("f32[3,13,5,7]",)),
        Case(("i32[1,2,11,3]",)),
        Case(("f32[1,3,2,5,7]",)),
    ),
)

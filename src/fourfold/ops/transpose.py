"""y[i0,i1,...] = x transposed: axis k of y is axis permutation[k] of x."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.codegen.expression import Expression
from fourfold.ops.base import Case, Op, Types
from fourfold.ops.base.rules import ANY, require, require_kind, takes
from fourfold.ops.kernels.move import move_variants
from fourfold.types import TensorType


@dataclass(frozen=True)
class Transpose:
    """The axis of the input for each axis of the result."""

    permutation: tuple[int, ...]


@takes("transpose", 1)
def infer(attributes: Transpose, x: TensorType) -> Types:
    require_kind("transpose", ANY, x)
    permutation = attributes.permutation
    fits = sorted(permutation) == list(range(x.rank))
    require(fits, "transpose", f"{list(permutation)} is not an order of the axes of {x}")
    return (x.with_shape(*(x.shape[axis] for axis in permutation)),)


def reference(attributes: Transpose, x: np.ndarray) -> np.ndarray:
    return x.transpose(attributes.permutation)


def source(
    attributes: Transpose, at: list[Expression], src: TensorType, dst: TensorType
) -> tuple[list[Expression], Expression | None]:
    return [at[attributes.permutation.index(axis)] for axis in range(src.rank)], None


OP = Op(
    name="transpose",
    attributes=Transpose,
    infer=infer,
    reference=reference,
    variants=move_variants(source),
    cases=(
        Case(("f32[]",), Transpose(())),
        Case(("f32[7]",), Transpose((0,))),
        Case(("f32[3,5]",), Transpose((1, 0))),
        Case(("f32[2,3,5]",), Transpose((1, 0, 2))),
        Case(("f32[2,3,5]",), Transpose((2, 0, 1))),
        Case(("f32[2,5,7,13]",), Transpose((0, 3, 1, 2))),
        Case(("f32[2,5,7,13]",), Transpose((0, 2, 3, 1))),
        Case(("f32[2,5,7,13]",), Transpose((0, 2, 1, 3))),
        Case(("f32[2,1,3,5,7]",), Transpose((4, 2, 0, 1, 3))),
        Case(("i32[3,5]",), Transpose((1, 0))),
    ),
)

"""y[i] = x[i mod size] on every axis: x repeated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.codegen.expression import Expression
from fourfold.ops.base import Case, Op, Types
from fourfold.ops.base.rules import ANY, require, require_kind, takes
from fourfold.ops.kernels.move import move_variants
from fourfold.types import TensorType


@dataclass(frozen=True)
class Tile:
    """The number of repetitions of each axis."""

    multiples: tuple[int, ...]


@takes("tile", 1)
def infer(attributes: Tile, x: TensorType) -> Types:
    multiples = attributes.multiples
    require_kind("tile", ANY, x)
    require(len(multiples) == x.rank, "tile", f"{list(multiples)} does not fit {x}")
    require(min(multiples, default=1) > 0, "tile", f"{list(multiples)} must be positive")
    return (x.with_shape(*(n * size for n, size in zip(multiples, x.shape, strict=True))),)


def reference(attributes: Tile, x: np.ndarray) -> np.ndarray:
    return np.tile(x, attributes.multiples)


def source(
    attributes: Tile, at: list[Expression], src: TensorType, dst: TensorType
) -> tuple[list[Expression], Expression | None]:
    axes = zip(at, attributes.multiples, src.shape, strict=True)
    return [position if n == 1 else position % size for position, n, size in axes], None


OP = Op(
    name="tile",
    attributes=Tile,
    infer=infer,
    reference=reference,
    variants=move_variants(source),
    cases=(
        Case(("f32[]",), Tile(())),
        Case(("f32[7]",), Tile((3,))),
        Case(("f32[3,1]",), Tile((1, 5))),
        Case(("f32[2,3,5]",), Tile((2, 1, 3))),
        Case(("f32[1,5,7,3]",), Tile((2, 1, 1, 1))),
        Case(("f32[2,1,1,13]",), Tile((1, 5, 7, 1))),
        Case(("f32[2,1,3,5,2]",), Tile((1, 2, 1, 1, 3))),
        Case(("i32[3,5]",), Tile((2, 2))),
    ),
)

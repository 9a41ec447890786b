"""y = the elements of x in the same order with another shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fourfold.codegen.expression import Expression, const
from fourfold.graph import Node
from fourfold.ops.base import Alias, Case, Op, Types
from fourfold.ops.base.rules import ANY, require, require_kind, takes
from fourfold.ops.kernels.move import move_variants
from fourfold.types import Shape, TensorType


@dataclass(frozen=True)
class Reshape:
    """The new shape, with every size known."""

    shape: Shape


@takes("reshape", 1)
def infer(attributes: Reshape, x: TensorType) -> Types:
    require_kind("reshape", ANY, x)
    shape = attributes.shape
    fits = min(shape, default=0) >= 0 and math.prod(shape) == x.elements
    require(fits, "reshape", f"{x} cannot be reshaped to {list(shape)}")
    return (x.with_shape(*shape),)


def reference(attributes: Reshape, x: np.ndarray) -> np.ndarray:
    return x.reshape(attributes.shape)


def source(
    attributes: Reshape, at: list[Expression], src: TensorType, dst: TensorType
) -> tuple[list[Expression], Expression | None]:
    first = _alike(src.shape, dst.shape)
    last = _alike(src.shape[first:][::-1], dst.shape[first:][::-1])
    end = dst.rank - last
    index = const(0)
    for position, size in zip(at[first:end], dst.shape[first:end], strict=True):
        index = index * size + position
    middle = _split(index, src.shape[first : src.rank - last])
    return [*at[:first], *middle, *at[end:]], None


def _alike(a: Sequence[int], b: Sequence[int]) -> int:
    """Return how many leading sizes are equal."""
    differs = [x != y for x, y in zip(a, b, strict=False)]
    return differs.index(True) if True in differs else len(differs)


def _split(index: Expression, shape: Shape) -> list[Expression]:
    """Return the coordinates of element number `index`."""
    coordinates: list[Expression] = []
    for axis in reversed(range(len(shape))):
        # The first axis needs no remainder.
        coordinates.insert(0, index % shape[axis] if axis else index)
        index = index // shape[axis]
    return coordinates


def view(node: Node, inputs: Types, outputs: Types) -> Alias:
    return Alias("same")


OP = Op(
    name="reshape",
    attributes=Reshape,
    infer=infer,
    reference=reference,
    variants=move_variants(source),
    view=view,
    cases=(
        Case(("f32[]",), Reshape((1, 1))),
        Case(("f32[1,1,1]",), Reshape(())),
        Case(("f32[7]",), Reshape((1, 7))),
        Case(("f32[6]",), Reshape((2, 3))),
        Case(("f32[2,3,5]",), Reshape((5, 6))),
        Case(("f32[2,5,7,13]",), Reshape((2, 35, 13))),
        Case(("f32[2,1,1,1001]",), Reshape((2, 1001))),
        Case(("f32[2,5,7,12]",), Reshape((2, 5, 7, 3, 4))),
        Case(("f32[2,3,5,1,7]",), Reshape((2, 7, 15))),
        Case(("i32[3,5]",), Reshape((5, 3))),
    ),
)

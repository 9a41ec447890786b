"""y = x padded with `value`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.codegen.expression import Expression
from fourfold.ops.base import Case, Op, Types
from fourfold.ops.base.rules import ANY, require, require_kind, takes
from fourfold.ops.kernels.move import move_variants
from fourfold.types import TensorType


@dataclass(frozen=True)
class Pad:
    """The number of elements before and after each axis, and their value."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    value: float = 0.0


@takes("pad", 1)
def infer(attributes: Pad, x: TensorType) -> Types:
    before, after = attributes.before, attributes.after
    require_kind("pad", ANY, x)
    matches = len(before) == len(after) == x.rank
    require(matches, "pad", f"{x} needs padding for each of its {x.rank} axes")
    require(min(before + after, default=0) >= 0, "pad", "padding must not be negative")
    return (x.with_shape(*map(sum, zip(before, x.shape, after, strict=True))),)


def reference(attributes: Pad, x: np.ndarray) -> np.ndarray:
    if not x.shape:
        return x
    widths = tuple(zip(attributes.before, attributes.after, strict=True))
    return np.pad(x, widths, constant_values=x.dtype.type(attributes.value))


def source(
    attributes: Pad, at: list[Expression], src: TensorType, dst: TensorType
) -> tuple[list[Expression], Expression | None]:
    conditions = []
    coordinates = list(at)
    pads = zip(attributes.before, attributes.after, src.shape, strict=True)
    for axis, (before, after, size) in enumerate(pads):
        if before:
            coordinates[axis] = at[axis] - before
            conditions.append(at[axis] >= before)
        if after:
            conditions.append(at[axis] < before + size)
    inside = conditions[0] if conditions else None
    for condition in conditions[1:]:
        inside = condition if inside is None else inside & condition
    return coordinates, inside


OP = Op(
    name="pad",
    attributes=Pad,
    infer=infer,
    reference=reference,
    variants=move_variants(source, fill=lambda attributes: attributes.value),
    cases=(
        Case(("f32[]",), Pad((), ())),
        Case(("f32[7]",), Pad((2,), (1,))),
        Case(("f32[3,5]",), Pad((0, 1), (0, 0), value=-1.5)),
        Case(("f32[2,3,5]",), Pad((1, 0, 2), (0, 3, 1))),
        Case(("f32[2,5,7,13]",), Pad((0, 1, 1, 0), (0, 1, 1, 0))),
        Case(("f32[2,5,7,3]",), Pad((0, 0, 1, 0), (0, 1, 0, 5), value=2.5)),
        Case(("f32[2,5,11,8]",), Pad((0, 0, 0, 0), (0, 0, 0, 5), value=2.5)),
        Case(("f32[1,13,11,7]",), Pad((0, 2, 1, 0), (0, 0, 1, 9))),
        Case(("f32[1,2,3,5,7]",), Pad((0, 1, 0, 1, 0), (1, 0, 0, 0, 1))),
        Case(("i32[3,5]",), Pad((1, 1), (1, 1), value=-7)),
    ),
)

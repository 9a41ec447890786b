"""y = x padded with its mirror image; `reflect` does not repeat the edge."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.codegen.expression import Expression, where
from fourfold.ops.base import Case, Op, Types
from fourfold.ops.base.rules import ANY, require, require_kind, takes
from fourfold.ops.kernels.move import move_variants
from fourfold.types import TensorType


@dataclass(frozen=True)
class MirrorPad:
    """The padding before and after each axis, and whether to reflect around the edge elements."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    reflect: bool


@takes("mirror_pad", 1)
def infer(attributes: MirrorPad, x: TensorType) -> Types:
    op, before, after = "mirror_pad", attributes.before, attributes.after
    require_kind(op, ANY, x)
    matches = len(before) == len(after) == x.rank
    require(matches, op, f"{x} needs padding for each of its {x.rank} axes")
    for axis, (left, right, size) in enumerate(zip(before, after, x.shape, strict=True)):
        limit = max(size - attributes.reflect, 0)
        fits = min(left, right) >= 0 and max(left, right) <= limit
        require(fits, op, f"axis {axis} of {x} cannot mirror {left} and {right} elements")
    return (x.with_shape(*map(sum, zip(before, x.shape, after, strict=True))),)


def reference(attributes: MirrorPad, x: np.ndarray) -> np.ndarray:
    if not x.shape:
        return x
    widths = tuple(zip(attributes.before, attributes.after, strict=True))
    return np.pad(x, widths, mode="reflect" if attributes.reflect else "symmetric")


def source(
    attributes: MirrorPad, at: list[Expression], src: TensorType, dst: TensorType
) -> tuple[list[Expression], Expression | None]:
    edge = 0 if attributes.reflect else 1
    coordinates = list(at)
    pads = zip(attributes.before, attributes.after, src.shape, strict=True)
    for axis, (before, after, size) in enumerate(pads):
        position = mirrored = at[axis] - before
        if after:
            mirrored = where(position >= size, 2 * (size - 1) + edge - position, mirrored)
        if before:
            mirrored = where(position < 0, -edge - position, mirrored)
        coordinates[axis] = mirrored
    return coordinates, None


OP = Op(
    name="mirror_pad",
    attributes=MirrorPad,
    infer=infer,
    reference=reference,
    variants=move_variants(source),
    cases=(
        Case(("f32[]",), MirrorPad((), (), reflect=True)),
        Case(("f32[7]",), MirrorPad((6,), (3,), reflect=True)),
        Case(("f32[7]",), MirrorPad((7,), (3,), reflect=False)),
        Case(("f32[3,5]",), MirrorPad((0, 1), (2, 0), reflect=True)),
        Case(("f32[2,1,3]",), MirrorPad((1, 1, 2), (0, 1, 3), reflect=False)),
        Case(("f32[2,5,7,13]",), MirrorPad((0, 1, 2, 0), (0, 2, 1, 0), reflect=True)),
        Case(("f32[2,5,7,3]",), MirrorPad((0, 0, 0, 2), (0, 0, 0, 2), reflect=True)),
        Case(("f32[1,2,3,5,7]",), MirrorPad((0, 1, 0, 1, 0), (1, 0, 3, 0, 2), reflect=False)),
        Case(("i32[3,5]",), MirrorPad((1, 1), (1, 1), reflect=True)),
    ),
)

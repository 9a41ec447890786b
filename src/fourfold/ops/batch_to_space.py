"""y = the pictures of a batch woven into blocks, one picture for each place of a block."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fourfold.kernel.expression import Expression, const
from fourfold.kernels.move import moves
from fourfold.op import Case, Op, Types
from fourfold.op.rules import ANY, require, require_kind, takes
from fourfold.types import Shape, TensorType


@dataclass(frozen=True)
class BatchToSpace:
    """The block's size along the axes after the batch, and what is cut off around them."""

    block: Shape
    before: Shape
    after: Shape


@takes("batch_to_space", 1)
def infer(attributes: BatchToSpace, x: TensorType) -> Types:
    op, block = "batch_to_space", attributes.block
    require_kind(op, ANY, x)
    known = len(block) == len(attributes.before) == len(attributes.after) < x.rank
    require(known and min(block, default=1) > 0, op, f"blocks of {list(block)} do not fit {x}")
    cuts = (*attributes.before, *attributes.after)
    require(min(cuts, default=0) >= 0, op, "what is cut off must not be negative")
    pictures = math.prod(block)
    require(x.shape[0] % pictures == 0, op, f"{x} does not have {pictures} pictures to a block")
    sizes = [
        size * count - first - last
        for size, count, first, last in zip(
            x.shape[1:], block, attributes.before, attributes.after, strict=False
        )
    ]
    require(min(sizes, default=1) > 0, op, f"nothing is left of {x}")
    return (x.with_shape(x.shape[0] // pictures, *sizes, *x.shape[1 + len(block) :]),)


def reference(attributes: BatchToSpace, x: np.ndarray) -> np.ndarray:
    block, count = attributes.block, len(attributes.block)
    batch, sizes, rest = (
        x.shape[0] // math.prod(block),
        x.shape[1 : 1 + count],
        x.shape[1 + count :],
    )
    parts = x.reshape(*block, batch, *sizes, *rest)
    pairs = [axis for n in range(count) for axis in (count + 1 + n, n)]
    parts = parts.transpose(count, *pairs, *range(2 * count + 1, parts.ndim))
    whole = parts.reshape(batch, *(s * n for s, n in zip(sizes, block, strict=True)), *rest)
    cuts = zip(whole.shape[1:], attributes.before, attributes.after, strict=False)
    return whole[(slice(None), *(slice(first, size - last) for size, first, last in cuts))]


def source(
    attributes: BatchToSpace, at: list[Expression], src: TensorType, dst: TensorType
) -> tuple[list[Expression], Expression | None]:
    place: Expression = const(0)
    positions = []
    for axis, (size, first) in enumerate(zip(attributes.block, attributes.before, strict=True)):
        position = at[1 + axis] + first
        place = place * size + position % size
        positions.append(position // size)
    return [place * dst.shape[0] + at[0], *positions, *at[1 + len(positions) :]], None


OP = Op(
    name="batch_to_space",
    attributes=BatchToSpace,
    infer=infer,
    reference=reference,
    variants=moves(source),
    cases=(
        Case(("f32[6,1,1,1]",), BatchToSpace((2, 3), (0, 0), (0, 0))),
        Case(("f32[12,3,5,3]",), BatchToSpace((2, 3), (1, 0), (0, 2))),
        Case(("f32[6,3,5,13]",), BatchToSpace((3, 2), (2, 1), (2, 0))),
        Case(("f32[12,7,5]",), BatchToSpace((4,), (1,), (0,))),
        Case(("f32[2,3,5,7]",), BatchToSpace((2,), (0,), (0,))),
        Case(("i32[4,5,3,8]",), BatchToSpace((2, 2), (0, 0), (1, 1))),
    ),
)

"""y = batch_to_space(x): groups of pictures interleaved to larger ones, block by block.

y[n, i*b+p, ...] = x[p*batch+n, i, ...] before cropping, for block size b and position p.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fourfold.codegen.expression import Expression, const
from fourfold.ops.base import Case, Op, Types
from fourfold.ops.base.rules import ANY, require, require_kind, takes
from fourfold.ops.kernels.move import move_variants
from fourfold.types import Shape, TensorType


@dataclass(frozen=True)
class BatchToSpace:
    """The block size along the axes after the batch, and the crop before and after each."""

    block: Shape
    before: Shape
    after: Shape


@takes("batch_to_space", 1)
def infer(attributes: BatchToSpace, x: TensorType) -> Types:
    op, block = "batch_to_space", attributes.block
    require_kind(op, ANY, x)
    valid = len(block) == len(attributes.before) == len(attributes.after) < x.rank
    require(valid and min(block, default=1) > 0, op, f"blocks of {list(block)} do not fit {x}")
    cuts = (*attributes.before, *attributes.after)
    require(min(cuts, default=0) >= 0, op, "the crop must not be negative")
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
    joined = parts.reshape(batch, *(s * n for s, n in zip(sizes, block, strict=True)), *rest)
    cuts = zip(joined.shape[1:], attributes.before, attributes.after, strict=False)
    return joined[(slice(None), *(slice(first, size - last) for size, first, last in cuts))]


def source(
    attributes: BatchToSpace, at: list[Expression], src: TensorType, dst: TensorType
) -> tuple[list[Expression], Expression | None]:
    block_position: Expression = const(0)
    positions = []
    for axis, (size, first) in enumerate(zip(attributes.block, attributes.before, strict=True)):
        position = at[1 + axis] + first
        block_position = block_position * size + position % size
        positions.append(position // size)
    return [block_position * dst.shape[0] + at[0], *positions, *at[1 + len(positions) :]], None


OP = Op(
    name="batch_to_space",
    attributes=BatchToSpace,
    infer=infer,
    reference=reference,
    variants=move_variants(source),
    cases=(
        Case(("f32[6,1,1,1]",), BatchToSpace((2, 3), (0, 0), (0, 0))),
        Case(("f32[12,3,5,3]",), BatchToSpace((2, 3), (1, 0), (0, 2))),
        Case(("f32[6,3,5,13]",), BatchToSpace((3, 2), (2, 1), (2, 0))),
        Case(("f32[12,7,5]",), BatchToSpace((4,), (1,), (0,))),
        Case(("f32[2,3,5,7]",), BatchToSpace((2,), (0,), (0,))),
        Case(("i32[4,5,3,8]",), BatchToSpace((2, 2), (0, 0), (1, 1))),
    ),
)

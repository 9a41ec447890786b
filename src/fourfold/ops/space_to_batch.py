"""y = space_to_batch(x): each position of a block becomes a picture of the batch.

y[p*batch+n, i, ...] = x[n, i*b+p, ...] after padding, for block size b and position p.
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
class SpaceToBatch:
    """The block size along the axes after the batch, and the zeros before and after each."""

    block: Shape
    before: Shape
    after: Shape


@takes("space_to_batch", 1)
def infer(attributes: SpaceToBatch, x: TensorType) -> Types:
    op, block = "space_to_batch", attributes.block
    require_kind(op, ANY, x)
    valid = len(block) == len(attributes.before) == len(attributes.after) < x.rank
    require(valid and min(block, default=1) > 0, op, f"blocks of {list(block)} do not fit {x}")
    pads = (*attributes.before, *attributes.after)
    require(min(pads, default=0) >= 0, op, "padding must not be negative")
    sizes = [
        size + first + last
        for size, first, last in zip(x.shape[1:], attributes.before, attributes.after, strict=False)
    ]
    divides = all(size % count == 0 for size, count in zip(sizes, block, strict=True))
    require(divides, op, f"blocks of {list(block)} do not fill {sizes}")
    inner = (size // count for size, count in zip(sizes, block, strict=True))
    return (x.with_shape(x.shape[0] * math.prod(block), *inner, *x.shape[1 + len(block) :]),)


def reference(attributes: SpaceToBatch, x: np.ndarray) -> np.ndarray:
    block, count = attributes.block, len(attributes.block)
    pads = list(zip(attributes.before, attributes.after, strict=True))
    padded = np.pad(x, [(0, 0), *pads, *[(0, 0)] * (x.ndim - 1 - count)])
    batch, sizes, rest = x.shape[0], padded.shape[1 : 1 + count], x.shape[1 + count :]
    split = [part for size, n in zip(sizes, block, strict=True) for part in (size // n, n)]
    parts = padded.reshape(batch, *split, *rest)
    outer = [2 + 2 * axis for axis in range(count)]
    inner = [1 + 2 * axis for axis in range(count)]
    parts = parts.transpose(*outer, 0, *inner, *range(1 + 2 * count, parts.ndim))
    shape = (size // n for size, n in zip(sizes, block, strict=True))
    return parts.reshape(batch * math.prod(block), *shape, *rest)


def source(
    attributes: SpaceToBatch, at: list[Expression], src: TensorType, dst: TensorType
) -> tuple[list[Expression], Expression | None]:
    block_position, picture = at[0] // src.shape[0], at[0] % src.shape[0]
    positions: list[Expression] = []
    for axis in reversed(range(len(attributes.block))):
        size = attributes.block[axis]
        offset = block_position % size - attributes.before[axis]
        positions.insert(0, at[1 + axis] * size + offset)
        block_position = block_position // size
    inside = const(True)
    for axis, position in enumerate(positions):
        inside = inside & (position >= 0) & (position < src.shape[1 + axis])
    padded = any((*attributes.before, *attributes.after))
    return [picture, *positions, *at[1 + len(positions) :]], inside if padded else None


OP = Op(
    name="space_to_batch",
    attributes=SpaceToBatch,
    infer=infer,
    reference=reference,
    variants=move_variants(source),
    cases=(
        Case(("f32[1,2,3,1]",), SpaceToBatch((2, 3), (0, 0), (0, 0))),
        Case(("f32[2,5,7,3]",), SpaceToBatch((2, 3), (1, 0), (0, 2))),
        Case(("f32[2,5,7,13]",), SpaceToBatch((3, 2), (2, 1), (2, 0))),
        Case(("f32[3,7,5]",), SpaceToBatch((4,), (1,), (0,))),
        Case(("f32[2,6,3,5]",), SpaceToBatch((2,), (0,), (0,))),
        Case(("i32[1,5,3,8]",), SpaceToBatch((2, 2), (0, 0), (1, 1))),
    ),
)

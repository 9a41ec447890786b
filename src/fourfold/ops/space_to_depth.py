"""y[n,h,w,p*channels+c] = x[n,h*b+p/b,w*b+p mod b,c] for positions p in a block of b by b."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression
from fourfold.ops.base import Case, Op, Types
from fourfold.ops.base.rules import ANY, require, require_kind, require_rank, takes
from fourfold.ops.kernels.move import Block, move_variants
from fourfold.types import TensorType


@takes("space_to_depth", 1)
def infer(attributes: Block, x: TensorType) -> Types:
    op, block = "space_to_depth", attributes.size
    require_kind(op, ANY, x)
    require_rank(op, "the input", x, 4)
    batch, height, width, channels = x.shape
    divides = block > 0 and height % block == 0 and width % block == 0
    require(divides, op, f"{x} cannot be cut into blocks of {block} by {block}")
    return (x.with_shape(batch, height // block, width // block, channels * block * block),)


def reference(attributes: Block, x: np.ndarray) -> np.ndarray:
    block = attributes.size
    batch, height, width, channels = x.shape
    rows, columns = height // block, width // block
    parts = x.reshape(batch, rows, block, columns, block, channels)
    return parts.transpose(0, 1, 3, 2, 4, 5).reshape(batch, rows, columns, -1)


def source(
    attributes: Block, at: list[Expression], src: TensorType, dst: TensorType
) -> tuple[list[Expression], Expression | None]:
    block = attributes.size
    if block == 1:
        return at, None
    batch, row, column, channel = at
    part = channel // src.channels
    coordinates = [row * block + part // block, column * block + part % block]
    return [batch, *coordinates, channel % src.channels], None


OP = Op(
    name="space_to_depth",
    attributes=Block,
    infer=infer,
    reference=reference,
    variants=move_variants(source),
    cases=(
        Case(("f32[1,2,2,1]",), Block(2)),
        Case(("f32[2,6,10,3]",), Block(2)),
        Case(("f32[2,4,6,4]",), Block(2)),
        Case(("f32[1,9,6,5]",), Block(3)),
        Case(("f32[2,3,5,7]",), Block(1)),
        Case(("i32[1,4,2,2]",), Block(2)),
    ),
)

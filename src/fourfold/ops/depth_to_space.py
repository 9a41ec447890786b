"""y[n,h,w,c] = x[n,h/b,w/b,((h mod b) * b + w mod b) * channels + c] for blocks of b by b."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression
from fourfold.ops.base import Case, Op, Types
from fourfold.ops.base.rules import ANY, require, require_kind, require_rank, takes
from fourfold.ops.kernels.move import Block, move_variants
from fourfold.types import TensorType


@takes("depth_to_space", 1)
def infer(attributes: Block, x: TensorType) -> Types:
    op, block = "depth_to_space", attributes.size
    require_kind(op, ANY, x)
    require_rank(op, "the input", x, 4)
    divides = block > 0 and x.channels % (block * block) == 0
    require(divides, op, f"the channels of {x} do not fill blocks of {block} by {block}")
    batch, height, width, channels = x.shape
    return (x.with_shape(batch, height * block, width * block, channels // (block * block)),)


def reference(attributes: Block, x: np.ndarray) -> np.ndarray:
    block = attributes.size
    batch, height, width, channels = x.shape
    out = channels // (block * block)
    parts = x.reshape(batch, height, width, block, block, out)
    return parts.transpose(0, 1, 3, 2, 4, 5).reshape(batch, height * block, width * block, out)


def source(
    attributes: Block, at: list[Expression], src: TensorType, dst: TensorType
) -> tuple[list[Expression], Expression | None]:
    block = attributes.size
    if block == 1:
        return at, None
    batch, row, column, channel = at
    part = (row % block) * block + column % block
    return [batch, row // block, column // block, part * dst.channels + channel], None


OP = Op(
    name="depth_to_space",
    attributes=Block,
    infer=infer,
    reference=reference,
    variants=move_variants(source),
    cases=(
        Case(("f32[1,1,1,4]",), Block(2)),
        Case(("f32[2,3,5,12]",), Block(2)),
        Case(("f32[2,3,5,16]",), Block(2)),
        Case(("f32[1,5,2,9]",), Block(3)),
        Case(("f32[2,3,5,7]",), Block(1)),
        Case(("i32[1,2,3,8]",), Block(2)),
    ),
)

"""y = x / sqrt(max(sum of x**2 over the last axis, 1e-6))."""

from __future__ import annotations

import operator

import numpy as np

from fourfold.codegen.combine import group_combine, team_ids
from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import maximum, rsqrt
from fourfold.ops.base import Case, Op, Types, Variant
from fourfold.ops.base.rules import FLOATS, require, require_kind, takes
from fourfold.ops.kernels.reduce import reduce_lanes, split_for, start_value
from fourfold.types import TensorType

EPSILON = 1e-6


@takes("l2_normalize", 1)
def infer(attributes: object, x: TensorType) -> Types:
    require_kind("l2_normalize", FLOATS, x)
    require(x.rank > 0, "l2_normalize", "a scalar has no last axis")
    return (x,)


def reference(attributes: object, x: np.ndarray) -> np.ndarray:
    squares = np.sum(x * x, axis=-1, keepdims=True)
    y: np.ndarray = x / np.sqrt(np.maximum(squares, x.dtype.type(EPSILON)))
    return y


def build(context: NodeContext) -> None:
    """Walk over the channels of a pixel twice: for the sum of squares, then for the quotients."""
    split = split_for(context, context.input.slices)
    kernel = context.kernel("l2_normalize" + ("_split" if split > 1 else ""), sums=True)
    view, target = context.read(kernel, 0), context.write(kernel)
    pixel, lane = team_ids(kernel, context.device, context.input.pixels, split)
    total = kernel.variable(start_value(view.kind, 0.0), "total")
    with kernel.loop(view.slices, lane, split, title="slice") as slice_:
        value = view.load(pixel, slice_)
        kernel.add(total, value * value)
    group_combine(kernel, [total], split, operator.add)
    share = kernel.let(rsqrt(maximum(reduce_lanes(total, operator.add), EPSILON)), "share")
    with kernel.loop(view.slices, lane, split, title="slice") as slice_:
        target.store(pixel, slice_, view.load(pixel, slice_) * share)


OP = Op(
    name="l2_normalize",
    infer=infer,
    reference=reference,
    variants=(Variant("walk", build),),
    cases=(
        Case(("f32[7]",)),
        Case(("f32[3,1]",)),
        Case(("f32[2,1001]",)),
        Case(("f32[2,5,7,13]",)),
        Case(("f32[2,3,5]",), low=-1e-4, high=1e-4),
        Case(("f32[2,1,3,5,7]",)),
    ),
)

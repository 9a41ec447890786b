"""y = x - log(sum of e**x over the last axis)."""

from __future__ import annotations

import operator

import numpy as np

from fourfold.codegen.broadcast import mask_beyond
from fourfold.codegen.combine import group_combine, team_ids
from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import exp, log, maximum
from fourfold.ops.base import Case, Op, Types, Variant
from fourfold.ops.base.rules import FLOATS, require, require_kind, takes
from fourfold.ops.kernels.reduce import reduce_lanes, split_for, start_value
from fourfold.types import TensorType


@takes("log_softmax", 1)
def infer(attributes: object, x: TensorType) -> Types:
    require_kind("log_softmax", FLOATS, x)
    require(x.rank > 0, "log_softmax", "a scalar has no last axis")
    require(x.channels > 0, "log_softmax", f"the last axis of {x} is empty")
    return (x,)


def reference(attributes: object, x: np.ndarray) -> np.ndarray:
    shifted = x - x.max(axis=-1, keepdims=True)
    y: np.ndarray = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return y


def build(context: NodeContext) -> None:
    """Walk over the channels of a pixel three times: maximum, sum of exponentials, differences."""
    split = split_for(context, context.input.slices)
    kernel = context.kernel("log_softmax" + ("_split" if split > 1 else ""), sums=True)
    view, target = context.read(kernel, 0), context.write(kernel)
    pixel, lane = team_ids(kernel, context.device, context.input.pixels, split)
    lowest, zero = start_value(view.kind, float("-inf")), start_value(view.kind, 0.0)
    most = kernel.variable(lowest, "most")
    with kernel.loop(view.slices, lane, split, title="slice") as slice_:
        value = mask_beyond(view, view.load(pixel, slice_), slice_, lowest)
        kernel.set(most, maximum(most, value))
    group_combine(kernel, [most], split, maximum)
    largest = kernel.let(reduce_lanes(most, maximum), "largest")
    total = kernel.variable(zero, "total")
    with kernel.loop(view.slices, lane, split, title="slice") as slice_:
        value = kernel.let(exp(view.load(pixel, slice_) - largest), "power")
        kernel.add(total, mask_beyond(view, value, slice_, zero))
    group_combine(kernel, [total], split, operator.add)
    log_sum = kernel.let(log(reduce_lanes(total, operator.add)), "whole")
    with kernel.loop(view.slices, lane, split, title="slice") as slice_:
        target.store(pixel, slice_, view.load(pixel, slice_) - largest - log_sum)


OP = Op(
    name="log_softmax",
    infer=infer,
    reference=reference,
    variants=(Variant("log_softmax", build),),
    cases=(
        Case(("f32[7]",)),
        Case(("f32[3,1]",)),
        Case(("f32[2,1001]",)),
        Case(("f32[2,5,7,13]",), low=-50.0, high=50.0),
        Case(("f32[2,1,3,5,7]",)),
    ),
)

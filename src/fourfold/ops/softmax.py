"""y = e**(beta * x) / sum of e**(beta * x) over the last axis."""

from __future__ import annotations

import operator
from dataclasses import dataclass

import numpy as np

from fourfold.codegen.broadcast import mask_beyond
from fourfold.codegen.combine import group_combine, team_ids
from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import Expression, const, exp, maximum
from fourfold.ops.base import Case, Op, Types, Variant
from fourfold.ops.base.rules import FLOATS, require, require_kind, takes
from fourfold.ops.kernels.reduce import reduce_lanes, split_for, start_value
from fourfold.types import TensorType


@dataclass(frozen=True)
class Softmax:
    """`beta` scales x before the exponential."""

    beta: float = 1.0


@takes("softmax", 1)
def infer(attributes: Softmax, x: TensorType) -> Types:
    require_kind("softmax", FLOATS, x)
    require(x.rank > 0, "softmax", "a scalar has no last axis")
    require(x.channels > 0, "softmax", f"the last axis of {x} is empty")
    return (x,)


def reference(attributes: Softmax, x: np.ndarray) -> np.ndarray:
    # Subtracting the maximum avoids overflow and does not change the quotient.
    powers = np.exp((x - x.max(axis=-1, keepdims=True)) * x.dtype.type(attributes.beta))
    y: np.ndarray = powers / powers.sum(axis=-1, keepdims=True)
    return y


def build(context: NodeContext) -> None:
    """Walk over the channels of a pixel three times: maximum, sum of exponentials, quotients."""
    assert isinstance(context.attributes, Softmax)
    split = split_for(context, context.input.slices)
    kernel = context.kernel("softmax" + ("_split" if split > 1 else ""), sums=True)
    view, target = context.read(kernel, 0), context.write(kernel)
    pixel, lane = team_ids(kernel, context.device, context.input.pixels, split)
    beta = const(context.attributes.beta, kernel.real)

    def power(slice_: Expression, largest: Expression) -> Expression:
        return exp((view.load(pixel, slice_) - largest) * beta)

    lowest = start_value(view.kind, float("-inf"))
    most = kernel.variable(lowest, "most")
    with kernel.loop(view.slices, lane, split, title="slice") as slice_:
        value = mask_beyond(view, view.load(pixel, slice_), slice_, lowest)
        kernel.set(most, maximum(most, value))
    group_combine(kernel, [most], split, maximum)
    largest = kernel.let(reduce_lanes(most, maximum), "largest")
    total = kernel.variable(start_value(view.kind, 0.0), "total")
    with kernel.loop(view.slices, lane, split, title="slice") as slice_:
        value = kernel.let(power(slice_, largest), "power")
        kernel.add(total, mask_beyond(view, value, slice_, start_value(view.kind, 0.0)))
    group_combine(kernel, [total], split, operator.add)
    share = kernel.let(1.0 / reduce_lanes(total, operator.add), "share")
    with kernel.loop(view.slices, lane, split, title="slice") as slice_:
        target.store(pixel, slice_, power(slice_, largest) * share)


OP = Op(
    name="softmax",
    attributes=Softmax,
    infer=infer,
    reference=reference,
    variants=(Variant("softmax", build),),
    cases=(
        Case(("f32[7]",), Softmax()),
        Case(("f32[3,1]",), Softmax()),
        Case(("f32[2,1001]",), Softmax()),
        Case(("f32[2,3,5]",), Softmax(0.5)),
        Case(("f32[2,5,7,13]",), Softmax(), low=-50.0, high=50.0),
        Case(("f32[2,1,3,5,7]",), Softmax(2.0)),
    ),
)

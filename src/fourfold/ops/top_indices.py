"""y = indices of the largest channels, the largest first; of equal ones the earlier first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.codegen.combine import group_combine, team_ids
from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import Expression, const, maximum, minimum, vector, where
from fourfold.codegen.kernel import Kernel, Variable
from fourfold.codegen.view import View
from fourfold.ops.base import Case, Op, Types, Variant
from fourfold.ops.base.rules import NUMBERS, require, require_kind, takes
from fourfold.ops.kernels.reduce import split_for, start_value
from fourfold.types import DType, TensorType


@dataclass(frozen=True)
class TopIndices:
    """The number of indices."""

    count: int


@takes("top_indices", 1)
def infer(attributes: TopIndices, x: TensorType) -> Types:
    require_kind("top_indices", NUMBERS, x)
    require(x.rank > 0, "top_indices", "a scalar has no last axis")
    fits = 0 < attributes.count <= x.channels
    require(fits, "top_indices", f"{x} has fewer than {attributes.count} channels")
    return (TensorType(DType.I32, (*x.shape[:-1], attributes.count)),)


def reference(attributes: TopIndices, x: np.ndarray) -> np.ndarray:
    # A stable ascending sort of the reversed channels, read from its end, keeps ties in order.
    ascending = np.argsort(np.flip(x, -1), -1, kind="stable")
    order = x.shape[-1] - 1 - np.flip(ascending, -1)
    return order[..., : attributes.count].astype(np.int32)


def build(context: NodeContext) -> None:
    """Select each index as the largest of the elements that follow the previous one in the
    order.
    """
    assert isinstance(context.attributes, TopIndices)
    split = split_for(context, context.input.channels)
    kernel = context.kernel("top_indices" + ("_split" if split > 1 else ""))
    view, target = context.read(kernel, 0), context.write(kernel)
    pixel, item = team_ids(kernel, context.device, context.input.pixels, split)
    value = kernel.variable(_bound(view, "inf"), "value")
    index = kernel.variable(const(-1), "place")
    with kernel.loop(target.slices, title="slice") as slice_:
        lanes: list[Expression] = []
        for _ in range(min(4, context.attributes.count)):
            _pick(kernel, view, pixel, (item, split), (value, index))
            lanes.append(kernel.variable(index, "picked"))
        lanes += [const(0)] * (4 - len(lanes))
        with kernel.when(item.equals(0) if split > 1 else const(True)):
            target.store(pixel, slice_, vector(*lanes))


def _bound(view: View, number: str) -> Expression:
    return start_value(view.kind, float(number)).lane(0)


def _pick(
    kernel: Kernel,
    view: View,
    pixel: Expression,
    share: tuple[Expression, int],
    last: tuple[Variable, Variable],
) -> None:
    """Set `last`, a value and its index, to the element that follows it in the order."""
    (item, split), (value, index) = share, last
    best = kernel.variable(_bound(view, "-inf"), "best")
    where_best = kernel.variable(view.channels, "where_best")
    with kernel.loop(view.channels, item, split, title="i") as i:
        x = kernel.let(view.element(pixel, i), "x")
        follows = (x < value) | (x.equals(value) & (i > index))
        first = where_best.equals(view.channels)
        wins = kernel.let(follows & (first | (x > best)), "wins")
        kernel.set(best, where(wins, x, best))
        kernel.set(where_best, where(wins, i, where_best))
    mine = kernel.variable(best, "mine")
    group_combine(kernel, [best], split, maximum)
    if split > 1:
        kernel.set(where_best, where(mine.equals(best), where_best, view.channels))
        group_combine(kernel, [where_best], split, minimum)
    kernel.set(value, best)
    kernel.set(index, where_best)


OP = Op(
    name="top_indices",
    attributes=TopIndices,
    infer=infer,
    reference=reference,
    variants=(Variant("walk", build),),
    cases=(
        Case(("f32[7]",), TopIndices(3)),
        Case(("f32[3,1]",), TopIndices(1)),
        Case(("f32[5,7]",), TopIndices(7)),
        Case(("f32[2,1001]",), TopIndices(5)),
        Case(("f32[2,3,5,13]",), TopIndices(6)),
        Case(("i32[3,11]",), TopIndices(11), low=-2, high=2),
        Case(("i32[3,5]",), TopIndices(2), low=-2, high=2),
    ),
)

"""y[i] = the sum of x[0] to x[i] along the axis, or without x[i], or from the end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.kernel.context import NodeContext
from fourfold.kernel.expression import Expression, const, vector
from fourfold.kernel.kernel import Kernel
from fourfold.kernels.grid import group_for
from fourfold.kernels.lines import line_grid
from fourfold.kernels.reduce import least
from fourfold.op import Case, Op, Types, Variant
from fourfold.op.rules import NUMBERS, require_axis, require_kind, takes
from fourfold.types import TensorType


@dataclass(frozen=True)
class Cumsum:
    """The axis; whether an element's own value is left out; whether sums start at the end."""

    axis: int
    exclusive: bool = False
    reverse: bool = False


@takes("cumsum", 1)
def infer(attributes: Cumsum, x: TensorType) -> Types:
    require_kind("cumsum", NUMBERS, x)
    require_axis("cumsum", attributes.axis, x.rank)
    return (x,)


def reference(attributes: Cumsum, x: np.ndarray) -> np.ndarray:
    turned = np.flip(x, attributes.axis) if attributes.reverse else x
    sums = np.cumsum(turned, attributes.axis, x.dtype)
    if attributes.exclusive:
        sums = sums - turned
    return np.flip(sums, attributes.axis) if attributes.reverse else sums


def build(context: NodeContext) -> None:
    assert isinstance(context.attributes, Cumsum)
    if context.attributes.axis == context.input.rank - 1:
        _along_channels(context, context.attributes)
    else:
        _along_pixels(context, context.attributes)


def _from(attributes: Cumsum, kernel: Kernel, step: Expression, count: Expression) -> Expression:
    """The place of a step: from the end backwards where sums start there."""
    return kernel.let(count - 1 - step, "place") if attributes.reverse else step


def _along_pixels(context: NodeContext, attributes: Cumsum) -> None:
    """total += x, four channels at once, one work-item a line."""
    kernel = context.kernel("cumsum")
    source, target = context.read(kernel, 0), context.write(kernel)
    pixel, slice_ = line_grid(kernel, context.device, source, attributes.axis)
    total = kernel.variable(least(source.kind, 0.0), "total")
    count = source.axis(attributes.axis)
    with kernel.loop(count, title="step") as step:
        at = pixel(_from(attributes, kernel, step, count))
        value = source.load(at, slice_)
        if attributes.exclusive:
            target.store(at, slice_, total)
            kernel.add(total, value)
        else:
            kernel.add(total, value)
            target.store(at, slice_, total)


def _along_channels(context: NodeContext, attributes: Cumsum) -> None:
    """total += x, channel by channel, one work-item a pixel."""
    kernel = context.kernel("cumsum_channels")
    source, target = context.read(kernel, 0), context.write(kernel)
    pixels = context.input.pixels
    (pixel,) = kernel.ids(pixels, local=group_for(context.device, pixels, 1))
    total = kernel.variable(const(0, source.kind), "total")
    count = source.slices
    with kernel.loop(count, title="step") as step:
        slice_ = _from(attributes, kernel, step, count)
        value = source.load(pixel, slice_)
        lanes: list[Expression] = [const(0, source.kind)] * 4
        for lane in reversed(range(4)) if attributes.reverse else range(4):
            after = kernel.let(total + value.lane(lane), "sum")
            lanes[lane] = kernel.variable(total, "before") if attributes.exclusive else after
            kernel.set(total, after)
        target.store(pixel, slice_, vector(*lanes))


OP = Op(
    name="cumsum",
    attributes=Cumsum,
    infer=infer,
    reference=reference,
    variants=(Variant("walk", build),),
    cases=(
        Case(("f32[7]",), Cumsum(0)),
        Case(("f32[3,5]",), Cumsum(1, exclusive=True)),
        Case(("f32[3,5]",), Cumsum(1, reverse=True)),
        Case(("f32[3,13]",), Cumsum(1, exclusive=True, reverse=True)),
        Case(("f32[3,5]",), Cumsum(0)),
        Case(("f32[2,5,7,13]",), Cumsum(1)),
        Case(("f32[2,5,7,13]",), Cumsum(2, exclusive=True)),
        Case(("f32[2,5,7,3]",), Cumsum(0, reverse=True)),
        Case(("f32[2,1,3,5,7]",), Cumsum(3, exclusive=True, reverse=True)),
        Case(("i32[3,11]",), Cumsum(1, exclusive=True), low=-29, high=29),
        Case(("i32[3,11]",), Cumsum(0, exclusive=True), low=-29, high=29),
    ),
)

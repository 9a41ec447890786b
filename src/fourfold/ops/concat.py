"""y = concat(inputs, axis)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import Expression, const, guarded, vector
from fourfold.codegen.kernel import Kernel
from fourfold.codegen.location import region_location
from fourfold.codegen.view import View
from fourfold.graph import Node
from fourfold.ops.base import Alias, Case, Op, Region, Types, Variant
from fourfold.ops.base.rules import ANY, require, require_axis, require_kind
from fourfold.ops.kernels.grid import plain_grid
from fourfold.types import TensorType


@dataclass(frozen=True)
class Concat:
    """The axis along which the inputs are concatenated."""

    axis: int


def infer(attributes: Concat, *types: TensorType | None) -> Types:
    parts = [type for type in types if type is not None]
    require(len(types) == len(parts) > 0, "concat", "an input is missing")
    require_kind("concat", ANY, *parts)
    axis, first = attributes.axis, parts[0]
    require_axis("concat", axis, first.rank)
    for part in parts:
        fits = part.rank == first.rank and _others(part, axis) == _others(first, axis)
        require(fits, "concat", f"{part} and {first} cannot be concatenated along axis {axis}")
    size = sum(part.shape[axis] for part in parts)
    return (first.with_shape(*first.shape[:axis], size, *first.shape[axis + 1 :]),)


def _others(type: TensorType, axis: int) -> tuple[int, ...]:
    return type.shape[:axis] + type.shape[axis + 1 :]


def reference(attributes: Concat, *arrays: np.ndarray) -> np.ndarray:
    return np.concatenate(arrays, axis=attributes.axis)


def view(node: Node, inputs: Types, outputs: Types) -> Alias:
    assert isinstance(node.attributes, Concat)
    axis = node.attributes.axis
    starts = accumulate((type.shape[axis] for type in inputs[:-1]), initial=0)
    return Alias("join", tuple(Region(part, axis, start) for part, start in enumerate(starts)))


def build(context: NodeContext) -> None:
    """Copy the inputs that are not in the result yet; most producers write to it directly."""
    assert isinstance(context.attributes, Concat)
    axis, start = context.attributes.axis, 0
    target_location = context.locations[context.node.outputs[0]]
    boxes = []
    for name in context.node.inputs:
        part = context.types[str(name)]
        boxes.append(
            (str(name), part, region_location(target_location, context.output, part, axis, start))
        )
        start += part.shape[axis]
    if any(location is None for _, _, location in boxes) or context.tail:
        _choose(context, axis)
        return
    for name, part, location in boxes:
        if location is not None and context.locations[name] != location:
            kernel = context.kernel("concat_copy")
            source = context.view(kernel, name, "src")
            pointer = kernel.pointer("dst", location.dtype, location, writable=True)
            target = View(kernel, pointer, part, location)
            for pixel, slice_ in plain_grid(kernel, context.device, target):
                target.store(pixel, slice_, source.load(pixel, slice_))


def _choose(context: NodeContext, axis: int) -> None:
    """Write a kernel in which each output element finds its input."""
    kernel = context.kernel("concat_choose")
    sources = [context.read(kernel, number) for number in range(len(context.node.inputs))]
    target = context.write(kernel)
    for pixel, slice_ in plain_grid(kernel, context.device, target):
        at = [kernel.let(position, "at") for position in target.coordinates(pixel)]
        lanes = []
        for lane in range(4):
            channel = kernel.let(slice_ * 4 + lane, "channel")
            lanes.append(_element(kernel, sources, axis, [*at, channel], target))
        target.store(pixel, slice_, vector(*lanes))


def _element(
    kernel: Kernel, sources: list[View], axis: int, at: list[Expression], target: View
) -> Expression:
    value, start = const(0, target.kind), 0
    exists = at[-1] < target.channels
    for source in sources:
        coordinates = [
            position - start if number == axis else position for number, position in enumerate(at)
        ]
        inside = exists & (at[axis] >= start) & (at[axis] < start + source.type.shape[axis])
        element = source.element(source.pixel(coordinates[:-1]), coordinates[-1])
        value = kernel.let(guarded(inside, element, value), "v")
        start += source.type.shape[axis]
    return value


OP = Op(
    name="concat",
    attributes=Concat,
    infer=infer,
    reference=reference,
    variants=(Variant("copy", build),),
    view=view,
    cases=(
        Case(("f32[7]", "f32[3]"), Concat(0)),
        Case(("f32[3,5]",), Concat(1)),
        Case(("f32[3,5]", "f32[3,1]", "f32[3,7]"), Concat(1)),
        Case(("f32[2,3,5]", "f32[2,11,5]"), Concat(1)),
        Case(("f32[2,5,7,3]", "f32[2,5,7,5]"), Concat(3)),
        Case(("f32[2,5,7,4]", "f32[2,5,7,8]", "f32[2,5,7,3]"), Concat(3)),
        Case(("f32[1,5,7,3]", "f32[2,5,7,3]"), Concat(0)),
        Case(("f32[2,5,1,3]", "f32[2,5,7,3]"), Concat(2), constants=(1,)),
        Case(("f32[2,1,3,5,7]", "f32[2,1,3,5,1]"), Concat(4)),
        Case(("i32[3,5]", "i32[2,5]"), Concat(0)),
    ),
)

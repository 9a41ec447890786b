"""y[i] = x[begin + i * stride] on every axis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.codegen.expression import Expression
from fourfold.graph import Node
from fourfold.ops.base import Alias, Case, Op, Region, Types
from fourfold.ops.base.rules import ANY, require, require_kind, takes
from fourfold.ops.kernels.move import move_variants
from fourfold.types import TensorType


@dataclass(frozen=True)
class Slice:
    """The first element, the number of elements and the stride on each axis; it may be negative."""

    begin: tuple[int, ...]
    size: tuple[int, ...]
    strides: tuple[int, ...]


@takes("slice", 1)
def infer(attributes: Slice, x: TensorType) -> Types:
    begin, size, strides = attributes.begin, attributes.size, attributes.strides
    require_kind("slice", ANY, x)
    matches = len(begin) == len(size) == len(strides) == x.rank
    require(matches, "slice", f"{x} needs begin, size and stride for each of its {x.rank} axes")
    for axis, (first, count, stride) in enumerate(zip(begin, size, strides, strict=True)):
        last = first + (count - 1) * stride
        inside = min(first, last) >= 0 and max(first, last) < x.shape[axis]
        fits = inside and count > 0 and stride != 0
        require(
            fits,
            "slice",
            f"axis {axis} of {x} does not have {count} elements from {first} with stride {stride}",
        )
    return (x.with_shape(*size),)


def reference(attributes: Slice, x: np.ndarray) -> np.ndarray:
    boxes = zip(attributes.begin, attributes.size, attributes.strides, strict=True)
    for axis, (first, count, stride) in enumerate(boxes):
        x = x.take(first + np.arange(count) * stride, axis=axis)
    return x


def source(
    attributes: Slice, at: list[Expression], src: TensorType, dst: TensorType
) -> tuple[list[Expression], Expression | None]:
    steps = zip(at, attributes.strides, attributes.begin, strict=True)
    return [position * stride + first for position, stride, first in steps], None


def view(node: Node, inputs: Types, outputs: Types) -> Alias | None:
    assert isinstance(node.attributes, Slice)
    if set(node.attributes.strides) != {1}:
        return None
    pairs = zip(inputs[0].shape, outputs[0].shape, strict=True)
    cut = [axis for axis, (whole, part) in enumerate(pairs) if whole != part]
    if len(cut) != 1:
        return None
    return Alias("cut", (Region(0, cut[0], node.attributes.begin[cut[0]]),))


OP = Op(
    name="slice",
    attributes=Slice,
    infer=infer,
    reference=reference,
    variants=move_variants(source),
    view=view,
    cases=(
        Case(("f32[]",), Slice((), (), ())),
        Case(("f32[7]",), Slice((2,), (3,), (1,))),
        Case(("f32[11]",), Slice((10,), (4,), (-3,))),
        Case(("f32[3,5]",), Slice((0, 1), (3, 2), (1, 2))),
        Case(("f32[2,3,5]",), Slice((0, 0, 0), (2, 3, 5), (1, 1, 1))),
        Case(("f32[2,5,7,13]",), Slice((0, 0, 0, 4), (2, 5, 7, 8), (1, 1, 1, 1))),
        Case(("f32[2,5,7,13]",), Slice((0, 0, 0, 3), (2, 5, 7, 7), (1, 1, 1, 1))),
        Case(("f32[2,5,7,13]",), Slice((1, 1, 0, 0), (1, 3, 4, 13), (1, 1, 2, 1))),
        Case(("f32[2,1,3,5,7]",), Slice((1, 0, 2, 0, 6), (2, 1, 3, 2, 7), (-1, 1, -1, 3, -1))),
        Case(("i32[3,5]",), Slice((1, 0), (2, 5), (1, 1))),
    ),
)

"""y = argmax(x, axis): the index of the first maximum, or of the last."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import const, where, widen
from fourfold.ops.base import Case, Op, Types, Variant
from fourfold.ops.base.rules import INDICES, NUMBERS, require, require_axis, require_kind, takes
from fourfold.ops.kernels.grid import plain_grid
from fourfold.ops.kernels.reduce import start_value
from fourfold.types import DType, TensorType


@dataclass(frozen=True)
class ArgMax:
    """The axis to reduce and the dtype of the result.

    `keep_dims` keeps the axis with size one. `last` returns the last of several equal maxima
    instead of the first.
    """

    axis: int
    dtype: DType = DType.I32
    keep_dims: bool = False
    last: bool = False


@takes("arg_max", 1)
def infer(attributes: ArgMax, x: TensorType) -> Types:
    axis, dtype = attributes.axis, attributes.dtype
    require_kind("arg_max", NUMBERS, x)
    require(dtype in INDICES, "arg_max", f"{dtype.value} cannot hold an index")
    require_axis("arg_max", axis, x.rank)
    require(x.shape[axis] > 0, "arg_max", f"axis {axis} of {x} is empty")
    kept = (1,) if attributes.keep_dims else ()
    return (TensorType(dtype, x.shape[:axis] + kept + x.shape[axis + 1 :]),)


def reference(attributes: ArgMax, x: np.ndarray) -> np.ndarray:
    axis = attributes.axis
    ordered = np.flip(x, axis) if attributes.last else x
    index = np.argmax(ordered, axis=axis, keepdims=attributes.keep_dims)
    if attributes.last:
        index = x.shape[axis] - 1 - index
    return np.asarray(index, attributes.dtype.numpy)


def build(context: NodeContext) -> None:
    """Walk along the axis once. A later element wins if it is larger (or equal, with `last`)."""
    assert isinstance(context.attributes, ArgMax)
    axis, rank, later = context.attributes.axis, context.input.rank, context.attributes.last
    kernel = context.kernel("arg_max")
    view, target = context.read(kernel, 0), context.write(kernel)
    last = axis == rank - 1
    for pixel, slice_ in plain_grid(kernel, context.device, target):
        at = target.coordinates(pixel)
        width = 1 if last else 4
        best = kernel.variable(start_value(view.kind, float("-inf")).part(0, width), "best")
        winner = kernel.variable(const(0, "int", width), "winner")
        with kernel.loop(view.channels if last else view.axis(axis), title="i") as i:
            coordinates = [i if number == axis else position for number, position in enumerate(at)]
            value = view.element(pixel, i) if last else view.load(view.pixel(coordinates), slice_)
            larger = kernel.let(value >= best if later else value > best, "larger")
            kernel.set(winner, where(larger, widen(i, width), winner))
            kernel.set(best, where(larger, value, best))
        target.store(pixel, slice_, widen(winner, 4))


def refuses(context: NodeContext) -> str | None:
    assert isinstance(context.attributes, ArgMax)
    return None if context.attributes.keep_dims else "it is supported only with keep_dims"


OP = Op(
    name="arg_max",
    attributes=ArgMax,
    infer=infer,
    reference=reference,
    variants=(Variant("walk", build, refuses),),
    cases=(
        Case(("f32[7]",), ArgMax(0)),
        Case(("f32[3,1]",), ArgMax(1)),
        Case(("f32[2,1001]",), ArgMax(1)),
        Case(("f32[2,3,5]",), ArgMax(0)),
        Case(("f32[2,5,7,13]",), ArgMax(3)),
        Case(("f32[2,5,7,13]",), ArgMax(1)),
        Case(("f32[2,1,3,5,7]",), ArgMax(3)),
        Case(("i32[3,11]",), ArgMax(1)),
        Case(("f32[3,11]",), ArgMax(1, DType.I64)),
        Case(("i32[3,11]",), ArgMax(1, last=True)),
        Case(("i32[2,7,5,3]",), ArgMax(1, DType.I64, keep_dims=True, last=True)),
    ),
)

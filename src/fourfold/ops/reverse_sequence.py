"""y[b] = x[b] with the first lengths[b] entries along the axis reversed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import minimum, where
from fourfold.ops.base import Case, IndexRange, Op, Types, Variant
from fourfold.ops.base.rules import ANY, INDICES, require, require_axis, require_kind, takes
from fourfold.ops.kernels.grid import plain_grid
from fourfold.types import TensorType


@dataclass(frozen=True)
class ReverseSequence:
    """The axis that is partly reversed, and the batch axis, which has the lengths."""

    axis: int
    batch_axis: int


@takes("reverse_sequence", 2)
def infer(attributes: ReverseSequence, x: TensorType, lengths: TensorType) -> Types:
    op, axis, batch = "reverse_sequence", attributes.axis, attributes.batch_axis
    require_kind(op, ANY, x)
    require_kind(op, INDICES, lengths)
    require_axis(op, axis, x.rank)
    require_axis(op, batch, x.rank)
    require(axis != batch, op, f"axis {axis} cannot be the batch axis, too")
    fits = lengths.shape == (x.shape[batch],)
    require(fits, op, f"lengths are {lengths}, but must be [{x.shape[batch]}]")
    return (x,)


def reference(attributes: ReverseSequence, x: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    axis, batch = attributes.axis, attributes.batch_axis
    y = x.copy()
    for entry, length in enumerate(lengths):
        at: list[int | slice] = [slice(None)] * x.ndim
        at[batch], at[axis] = entry, slice(0, max(int(length), 0))
        y[tuple(at)] = np.flip(x[tuple(at)], axis - (batch < axis))
    return y


def valid_lengths(attributes: ReverseSequence, x: TensorType, lengths: TensorType) -> IndexRange:
    return IndexRange(1, (0,), (x.shape[attributes.axis],))


def build(context: NodeContext) -> None:
    """Each output reads its length, then the entry that it swaps with."""
    attributes = context.attributes
    assert isinstance(attributes, ReverseSequence)
    axis = attributes.axis
    kernel = context.kernel("reverse_sequence")
    view, lengths = context.read(kernel, 0), context.read(kernel, 1, "lengths")
    target = context.write(kernel)
    for pixel, slice_ in plain_grid(kernel, context.device, target):
        at = [kernel.let(position, "at") for position in target.coordinates(pixel)]
        length = kernel.let(lengths.element(0, at[attributes.batch_axis]), "length")
        length = kernel.let(minimum(length, view.axis(axis)), "length")
        index = at[axis]
        at[axis] = where(index < length, length - 1 - index, index)
        target.store(pixel, slice_, view.load(view.pixel(at), slice_))


def refuses(context: NodeContext) -> str | None:
    attributes = context.attributes
    assert isinstance(attributes, ReverseSequence)
    last = context.input.rank - 1
    return (
        "reversing or batching along the last axis is not supported"
        if last in (attributes.axis, attributes.batch_axis)
        else None
    )


OP = Op(
    name="reverse_sequence",
    attributes=ReverseSequence,
    infer=infer,
    reference=reference,
    indices=valid_lengths,
    variants=(Variant("move", build, refuses),),
    cases=(
        Case(("f32[3,7,5]", "i32[3]"), ReverseSequence(1, 0), low=0, high=7),
        Case(("f32[7,3,13]", "i32[3]"), ReverseSequence(0, 1), low=0, high=7),
        Case(("f32[2,5,7,3]", "i64[2]"), ReverseSequence(2, 0), low=0, high=7),
        Case(("i32[3,5,8]", "i32[3]"), ReverseSequence(1, 0), constants=(1,), low=0, high=5),
    ),
)

"""Vectorized access to values stored as bytes: reads of 8 and writes of 16 bytes at once."""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.codegen.expression import Expression, const, lift, vector, where
from fourfold.codegen.intrinsics import load_bytes
from fourfold.codegen.location import Layout
from fourfold.codegen.statement import StoreRounded, StoreRoundedBlock
from fourfold.codegen.view import View
from fourfold.types import DType

RUN = 4  # neighbouring pixels stored at once


def load_two(view: View, pixel: Expression, slice_: Expression) -> Expression | None:
    """Load two neighbouring pixels at once; None if the view is not stored as packed bytes."""
    location = view.location
    if not (view.kernel.packs and location.dtype is DType.U8 and location.scale is not None):
        return None
    if location.layout is not Layout.SLICED:
        return None
    index = view.index(pixel, slice_) * 4
    packed = view.kernel.let(load_bytes(view.pointer, index), "found")
    return view.steps.real(packed)


def store_four(
    view: View, pixel: Expression, slice_: Expression, first: Expression, second: Expression
) -> None:
    """Store two pairs of neighbouring pixels to a quantized view: apply the tail, then round."""
    assert view.counting is not None
    values = [first, second]
    if view.finish is not None:
        values = [
            view.finish(one, pixel + 2 * number, slice_, 2) for number, one in enumerate(values)
        ]
    if view.type.channels % 4:
        values = [_zero_beyond(view, one, slice_) for one in values]
    first, second = (view.counting.ready(one) for one in values)
    index, high, zero = view.index(pixel, slice_) * 4, view.counting.high, view.counting.zero
    view.kernel.emit(StoreRounded(view.pointer, index, first, second, high, zero))


def store_block(
    view: View, pixel: Expression, slice_: Expression, values: Sequence[Expression]
) -> None:
    """Store two neighbouring slices of four neighbouring pixels, given eight channels of each."""
    assert view.counting is not None
    assert view.counting.zero is not None
    if view.finish is not None:
        values = [view.finish(one, pixel + step, slice_, 1, 2) for step, one in enumerate(values)]
    first, second, third, fourth = (view.counting.ready(one) for one in values)
    index, high, zero = view.index(pixel, slice_) * 4, view.counting.high, view.counting.zero
    view.kernel.emit(
        StoreRoundedBlock(
            view.pointer, index, view.pitch * 4, first, second, third, fourth, high, zero
        )
    )


def _zero_beyond(view: View, value: Expression, slice_: Expression) -> Expression:
    """Return the value with zeros in the lanes beyond the last channel."""
    value, channels_in_last = view.kernel.let(value, "value"), view.type.channels % 4
    zero = const(0, value.kind)
    lanes = (value.lane(n) if n % 4 < channels_in_last else zero for n in range(value.width))
    return where(lift(slice_).equals(view.slices - 1), vector(*lanes), value)

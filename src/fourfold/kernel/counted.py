"""Storing numbers as bytes: rounded, limited and packed by one function, sixteen at once."""

from __future__ import annotations

from fourfold.kernel.expression import Expression, const, lift, vector, where
from fourfold.kernel.view import View


def store_four(
    view: View, pixel: Expression, slice_: Expression, first: Expression, second: Expression
) -> None:
    """Write two and two neighbouring pixels to a view that counts bytes: tail first, then
    rounding.
    """
    assert view.high is not None
    values = [first, second]
    if view.finish is not None:
        values = [
            view.finish(one, pixel + 2 * number, slice_, 2) for number, one in enumerate(values)
        ]
    if view.type.channels % 4:
        values = [_zero_beyond(view, one, slice_) for one in values]
    index, zero = view.index(pixel, slice_) * 4, const(view.place.zero_point)
    view.kernel.call_at("store_bytes", view.pointer, index, *values, view.high, zero)


def _zero_beyond(view: View, value: Expression, slice_: Expression) -> Expression:
    """The same numbers, zeros in the lanes beyond the last channel."""
    value, rest = view.kernel.let(value, "value"), view.type.channels % 4
    zero = const(0, value.kind)
    lanes = (value.lane(n) if n % 4 < rest else zero for n in range(value.width))
    return where(lift(slice_).equals(view.slices - 1), vector(*lanes), value)

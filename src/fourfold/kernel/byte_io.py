"""Values that are kept as bytes, eight and sixteen at once: by functions of the prelude."""

from __future__ import annotations

from fourfold.kernel.expression import Expression, Operand, Pointer, const, lift, vector, where
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.location import Layout
from fourfold.kernel.view import View
from fourfold.types import DType

RUN = 4  # neighbouring pixels that are stored at once


def read_eight(
    kernel: Kernel, function: str, kind: str, pointer: Pointer, index: Operand, *more: int
) -> Expression:
    """Eight numbers that a function of the prelude finds in memory."""
    kernel.preludes.add(function)
    operands = (function, pointer, lift(index), *(const(item) for item in more))
    return kernel.let(Expression("read", operands, kind, 8), "found")


def load_two(view: View, pixel: Expression, slice_: Expression) -> Expression | None:
    """Two neighbouring pixels, where they are bytes and can be read at once."""
    place = view.location
    if not (view.kernel.packs and place.dtype is DType.U8 and place.scale is not None):
        return None
    if place.layout is not Layout.SLICED:
        return None
    index = view.index(pixel, slice_) * 4
    found = read_eight(view.kernel, "floats_of", "float", view.pointer, index)
    return view.steps.real(found)


def store_four(
    view: View, pixel: Expression, slice_: Expression, first: Expression, second: Expression
) -> None:
    """Write two and two neighbouring pixels to a view that counts: tail first, then rounding."""
    assert view.counting is not None
    values = [first, second]
    if view.finish is not None:
        values = [
            view.finish(one, pixel + 2 * number, slice_, 2) for number, one in enumerate(values)
        ]
    if view.type.channels % 4:
        values = [_zero_beyond(view, one, slice_) for one in values]
    values = [view.counting.ready(one) for one in values]
    index = view.index(pixel, slice_) * 4
    function, arguments = view.counting.function, view.counting.arguments
    view.kernel.call_at(function, view.pointer, index, *values, *arguments)


def _zero_beyond(view: View, value: Expression, slice_: Expression) -> Expression:
    """The same numbers, zeros in the lanes beyond the last channel."""
    value, rest = view.kernel.let(value, "value"), view.type.channels % 4
    zero = const(0, value.kind)
    lanes = (value.lane(n) if n % 4 < rest else zero for n in range(value.width))
    return where(lift(slice_).equals(view.slices - 1), vector(*lanes), value)

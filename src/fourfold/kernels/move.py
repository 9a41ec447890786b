"""The kernel of ops that only move elements: each says where an output element comes from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fourfold.kernel.context import NodeContext
from fourfold.kernel.expression import Expression, const, guarded, name, vector
from fourfold.kernel.view import View
from fourfold.kernels.grid import plain_grid
from fourfold.op import Variant
from fourfold.types import TensorType

Source = Callable[
    [object, list[Expression], TensorType, TensorType],
    tuple[list[Expression], Expression | None],
]


@dataclass(frozen=True)
class Block:
    """Height and width of a block of pixels."""

    size: int


def moves(
    source: Callable[..., tuple[list[Expression], Expression | None]],
    fill: Callable[..., float] = lambda attributes: 0.0,
) -> tuple[Variant, ...]:
    """The variant of an op whose output is its input seen at other coordinates.

    `source(attributes, at, src type, dst type)` gives the input's coordinates for the output's,
    and a
    condition under which they exist; elsewhere the output is `fill(attributes)`.
    """

    def build(context: NodeContext) -> None:
        kernel = context.kernel(context.node.op)
        view, target = context.read(kernel, 0), context.write(kernel)
        outside = fill(context.attributes)
        for pixel, slice_ in plain_grid(kernel, context.device, target):
            at = [kernel.let(place, "at") for place in target.coordinates(pixel)]
            value = _whole_slice(context, source, view, target, at, slice_, outside)
            if value is None:
                lanes = _lanes(context, source, view, target, at, slice_, outside)
                value = vector(*lanes)
            target.store(pixel, slice_, value)

    return (Variant("move", build),)


def _whole_slice(
    context: NodeContext,
    source: Source,
    view: View,
    target: View,
    at: list[Expression],
    slice_: Expression,
    outside: float,
) -> Expression | None:
    """Four channels at once, where input and output have the same, or the output some more that
    the input keeps as zeros.
    """
    more = target.type.channels - view.type.channels
    if not target.type.rank or not view.type.rank or not view.whole or more < 0:
        return None
    if more and outside != 0 and view.type.channels % 4:
        return None
    channel = name("channel", "int")
    places, inside = source(context.attributes, [*at, channel], view.type, target.type)
    if more:
        _, inside = source(context.attributes, [*at, const(0)], view.type, target.type)
        exists = slice_ < view.slices
        inside = exists if inside is None else exists & inside
    others = [*places[:-1], *([] if inside is None else [inside])]
    if places[-1] is not channel or any(_mentions(item, channel) for item in others):
        return None
    pixel = view.kernel.let(view.pixel(places[:-1]), "from")
    return view.load(pixel, slice_, inside, outside)


def _lanes(
    context: NodeContext,
    source: Source,
    view: View,
    target: View,
    at: list[Expression],
    slice_: Expression,
    outside: float,
) -> list[Expression]:
    lanes = []
    for lane in range(4):
        if target.type.channels < 4 and lane >= target.type.channels:
            lanes.append(const(0, view.kind))
            continue
        channel = view.kernel.let(slice_ * 4 + lane, "c")
        coordinates = [*at, channel] if target.type.rank else []
        places, inside = source(context.attributes, coordinates, view.type, target.type)
        exists = channel < target.channels if target.type.channels % 4 else const(True)
        inside = exists if inside is None else exists & inside
        pixel = view.pixel(places[:-1])
        value = view.element(pixel, places[-1] if places else const(0))
        lanes.append(view.kernel.let(guarded(inside, value, outside), "v"))
    return lanes


def _mentions(item: Expression, part: Expression) -> bool:
    return item is part or any(
        _mentions(operand, part) for operand in item.operands if isinstance(operand, Expression)
    )

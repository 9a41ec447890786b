"""The kernel of ops that only move elements: each maps output to input coordinates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import Expression, const, guarded, name, vector
from fourfold.codegen.view import View
from fourfold.ops.base import Variant
from fourfold.ops.kernels.grid import plain_grid
from fourfold.types import TensorType

Source = Callable[
    [object, list[Expression], TensorType, TensorType],
    tuple[list[Expression], Expression | None],
]


@dataclass(frozen=True)
class Block:
    """Height and width of a block of pixels."""

    size: int


def move_variants(
    source: Callable[..., tuple[list[Expression], Expression | None]],
    fill: Callable[..., float] = lambda attributes: 0.0,
) -> tuple[Variant, ...]:
    """Return the variant of an op whose output is its input at other coordinates.

    `source(attributes, at, src type, dst type)` returns the input coordinates for the output
    coordinates `at`, and a condition under which they exist (None: always). Elsewhere the output is
    `fill(attributes)`.
    """

    def build(context: NodeContext) -> None:
        kernel = context.kernel(context.node.op)
        view, target = context.read(kernel, 0), context.write(kernel)
        outside = fill(context.attributes)
        for pixel, slice_ in plain_grid(kernel, context.device, target):
            at = [kernel.let(position, "at") for position in target.coordinates(pixel)]
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
    """Return four channels at once, or None if the lanes must be read one by one.

    The channels of input and output must match, or the input must hold zeros for the extra ones.
    """
    extra = target.type.channels - view.type.channels
    if not target.type.rank or not view.type.rank or not view.whole or extra < 0:
        return None
    if extra and outside != 0 and view.type.channels % 4:
        return None
    channel = name("channel", "int")
    coordinates, inside = source(context.attributes, [*at, channel], view.type, target.type)
    if extra:
        _, inside = source(context.attributes, [*at, const(0)], view.type, target.type)
        exists = slice_ < view.slices
        inside = exists if inside is None else exists & inside
    others = [*coordinates[:-1], *([] if inside is None else [inside])]
    if coordinates[-1] is not channel or any(_mentions(item, channel) for item in others):
        return None
    pixel = view.kernel.let(view.pixel(coordinates[:-1]), "from")
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
        source_coordinates, inside = source(context.attributes, coordinates, view.type, target.type)
        exists = channel < target.channels if target.type.channels % 4 else const(True)
        inside = exists if inside is None else exists & inside
        pixel = view.pixel(source_coordinates[:-1])
        value = view.element(pixel, source_coordinates[-1] if source_coordinates else const(0))
        lanes.append(view.kernel.let(guarded(inside, value, outside), "v"))
    return lanes


def _mentions(item: Expression, part: Expression) -> bool:
    return item is part or any(
        _mentions(operand, part) for operand in item.operands if isinstance(operand, Expression)
    )

"""y = position of the maximum in its window: row * filter width + column, as a float."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import const, convert, where, widen
from fourfold.ops.base import Case, Op, Variant
from fourfold.ops.base.rules import FLOATS
from fourfold.ops.base.window import Padding, Pool2d, pool2d_type, pool_window, windows
from fourfold.ops.kernels.grid import plain_grid
from fourfold.ops.kernels.reduce import start_value


def reference(attributes: Pool2d, x: np.ndarray) -> np.ndarray:
    lowest = np.finfo(x.dtype).min
    every = windows(x, pool_window(attributes), float(lowest))
    flat = every.reshape(*every.shape[:4], -1)
    return np.asarray(np.argmax(flat, axis=-1), x.dtype)


def build(context: NodeContext) -> None:
    """Walk over the window once. A later element must be larger to win."""
    attributes = context.attributes
    assert isinstance(attributes, Pool2d)
    kernel = context.kernel("max_pool2d_index")
    source, target = context.read(kernel, 0), context.write(kernel)
    (rows, columns), (down, across) = attributes.filter, attributes.stride
    for pixel, slice_ in plain_grid(kernel, context.device, target):
        image, y, x = target.coordinates(pixel)
        top = kernel.let(y * down - attributes.padding.top, "top")
        left = kernel.let(x * across - attributes.padding.left, "left")
        best = kernel.variable(start_value(source.kind, float("-inf")), "best")
        winner = kernel.variable(const(0, "int", 4), "winner")
        with (
            kernel.loop(kernel.size("rows", rows), title="row") as row,
            kernel.loop(kernel.size("columns", columns), title="column") as column,
        ):
            at = [kernel.let(top + row, "y"), kernel.let(left + column, "x")]
            inside = (at[0] >= 0) & (at[0] < source.axis(1))
            inside = inside & (at[1] >= 0) & (at[1] < source.axis(2))
            with kernel.when(inside):
                value = source.load(source.pixel([image, *at]), slice_)
                larger = kernel.let(value > best, "larger")
                number = row * kernel.size("columns", columns) + column
                kernel.set(winner, where(larger, widen(number, 4), winner))
                kernel.set(best, where(larger, value, best))
        target.store(pixel, slice_, convert(winner, source.kind))


OP = Op(
    name="max_pool2d_index",
    attributes=Pool2d,
    infer=pool2d_type("max_pool2d_index", FLOATS),
    reference=reference,
    heavy=True,
    variants=(Variant("pool", build),),
    cases=(
        Case(("f32[1,1,1,1]",), Pool2d((1, 1), (1, 1))),
        Case(("f32[2,5,7,3]",), Pool2d((2, 3), (2, 2))),
        Case(("f32[2,7,11,13]",), Pool2d((3, 3), (2, 1), Padding(1, 1, 1, 1))),
        Case(("f32[1,5,5,8]",), Pool2d((2, 2), (2, 2), Padding(0, 1, 0, 1))),
    ),
)

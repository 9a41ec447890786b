"""y = zeros, with each x at the position in its window that its index selects."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import convert, where, widen
from fourfold.ops.base import Case, Op, Types, Variant
from fourfold.ops.base.rules import FLOATS, require, require_kind, require_rank, takes
from fourfold.ops.base.window import Padding, Pool2d
from fourfold.ops.kernels.grid import plain_grid
from fourfold.ops.kernels.reduce import start_value
from fourfold.types import TensorType


@takes("max_unpool2d", 2)
def infer(attributes: Pool2d, x: TensorType, index: TensorType) -> Types:
    op, (rows, columns) = "max_unpool2d", attributes.filter
    require_kind(op, FLOATS, x, index)
    require_rank(op, "the input", x, 4)
    require(index.shape == x.shape, op, f"indices are {index}, but the input is {x}")
    require(
        min(*attributes.filter, *attributes.stride) > 0, op, "filter and stride must be positive"
    )
    pads = (*attributes.padding.height, *attributes.padding.width)
    require(min(pads) >= 0, op, "padding must not be negative")
    batch, height, width, channels = x.shape
    return (x.with_shape(batch, height * rows, width * columns, channels),)


def reference(attributes: Pool2d, x: np.ndarray, index: np.ndarray) -> np.ndarray:
    (rows, columns), (down, across) = attributes.filter, attributes.stride
    batch, height, width, channels = x.shape
    y = np.zeros((batch, height * rows, width * columns, channels), x.dtype)
    numbers = np.clip(np.nan_to_num(index, nan=-1), -1, rows * columns).astype(np.int64)
    for n, i, j, c in np.ndindex(x.shape):
        position = int(numbers[n, i, j, c])
        if not 0 <= position < rows * columns:
            continue
        row = i * down - attributes.padding.top + position // columns
        column = j * across - attributes.padding.left + position % columns
        if 0 <= row < y.shape[1] and 0 <= column < y.shape[2]:
            y[n, row, column, c] = x[n, i, j, c]
    return y


def build(context: NodeContext) -> None:
    """Each output checks the windows over it for one that selects it; the last one wins."""
    attributes = context.attributes
    assert isinstance(attributes, Pool2d)
    kernel = context.kernel("max_unpool2d")
    source, index = context.read(kernel, 0), context.read(kernel, 1, "index")
    target = context.write(kernel)
    (rows, columns), (down, across) = attributes.filter, attributes.stride
    for pixel, slice_ in plain_grid(kernel, context.device, target):
        image, y, x = target.coordinates(pixel)
        top = kernel.let(y + attributes.padding.top - (rows - 1), "top")
        left = kernel.let(x + attributes.padding.left - (columns - 1), "left")
        result = kernel.variable(start_value(source.kind, 0.0), "result")
        with (
            kernel.loop(kernel.size("rows", rows), title="row") as row,
            kernel.loop(kernel.size("columns", columns), title="column") as column,
        ):
            at_y, at_x = kernel.let(top + row, "y"), kernel.let(left + column, "x")
            inside = (at_y >= 0) & (at_x >= 0)
            inside = inside & (at_y % down).equals(0) & (at_x % across).equals(0)
            inside = inside & (at_y // down < source.axis(1)) & (at_x // across < source.axis(2))
            with kernel.when(inside):
                source_pixel = kernel.let(
                    source.pixel([image, at_y // down, at_x // across]), "from"
                )
                number = (rows - 1 - row) * columns + (columns - 1 - column)
                named = convert(index.load(source_pixel, slice_), "int").equals(widen(number, 4))
                kernel.set(result, where(named, source.load(source_pixel, slice_), result))
        target.store(pixel, slice_, result)


OP = Op(
    name="max_unpool2d",
    attributes=Pool2d,
    infer=infer,
    reference=reference,
    heavy=True,
    variants=(Variant("ask", build),),
    cases=(
        # `high` is beyond the last position in the window: such an index is cut off or selects
        # nothing.
        Case(("f32[1,1,1,1]", "f32[1,1,1,1]"), Pool2d((2, 2), (2, 2)), low=0, high=3.9),
        Case(("f32[2,3,5,3]", "f32[2,3,5,3]"), Pool2d((2, 2), (2, 2)), low=0, high=3.9),
        Case(("f32[2,3,5,13]", "f32[2,3,5,13]"), Pool2d((2, 3), (2, 3)), low=0, high=5.9),
        Case(("f32[1,3,5,8]", "f32[1,3,5,8]"), Pool2d((3, 3), (2, 1)), low=0, high=8.9),
        Case(
            ("f32[1,5,3,4]", "f32[1,5,3,4]"),
            Pool2d((2, 2), (3, 3), Padding(2, 2, 1, 1)),
            low=0,
            high=3.9,
        ),
    ),
)

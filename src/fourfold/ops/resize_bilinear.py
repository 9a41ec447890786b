"""y = weighted mean of the four nearest pixels of x."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.context import NodeContext
from fourfold.codegen.expression import Expression, const, convert, floor, maximum, minimum
from fourfold.codegen.view import View
from fourfold.ops.base import Case, Op, Types, Variant
from fourfold.ops.base.rules import FLOATS, Resize, require, resize_step, resized_type, takes
from fourfold.ops.kernels.grid import plain_grid
from fourfold.types import TensorType

SLICES = 6  # slices that a CPU work-item processes together, with both columns of each in registers
_resized = resized_type("resize_bilinear", FLOATS)


@takes("resize_bilinear", 1)
def infer(attributes: Resize, x: TensorType) -> Types:
    # A corner cannot be at the center of its pixel and at its outer edge at once.
    both = attributes.align_corners and attributes.half_pixel_centers
    require(not both, "resize_bilinear", "align_corners and half_pixel_centers exclude each other")
    return _resized(attributes, x)


def neighbours(
    attributes: Resize, axis: int, size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows (axis 0) or columns of x before and after each of y, and the fraction."""
    half = np.float32(0.5 if attributes.half_pixel_centers else 0)
    steps = np.arange(attributes.size[axis], dtype=np.float32)
    position = (steps + half) * resize_step(attributes, axis, size) - half
    lower = np.maximum(np.floor(position), 0).astype(np.int64)
    upper = np.minimum(np.ceil(position), size - 1).astype(np.int64)
    return lower, upper, position - lower.astype(np.float32)


def reference(attributes: Resize, x: np.ndarray) -> np.ndarray:
    for axis in (0, 1):
        lower, upper, fraction = neighbours(attributes, axis, x.shape[1 + axis])
        share = fraction.astype(x.dtype).reshape((-1, 1, 1) if axis == 0 else (-1, 1))
        before, after = x.take(lower, axis=1 + axis), x.take(upper, axis=1 + axis)
        x = before * (1 - share) + after * share
    return x


def build(context: NodeContext) -> None:
    """Combine four pixels: first the rows, then the columns."""
    kernel = context.kernel("resize_bilinear")
    view, target = context.read(kernel, 0), context.write(kernel)
    if context.device.is_cpu:
        _walk_rows(context, view, target)
        return
    for pixel, slice_ in plain_grid(kernel, context.device, target):
        image, y, x = target.coordinates(pixel)
        top, bottom, down = _between(context, view, y, 0)
        left, right, along = _between(context, view, x, 1)
        corners = [
            view.load(view.pixel([image, row, column]), slice_)
            for row in (top, bottom)
            for column in (left, right)
        ]
        above = corners[0] * (1.0 - along) + corners[1] * along
        below = corners[2] * (1.0 - along) + corners[3] * along
        target.store(pixel, slice_, above * (1.0 - down) + below * down)


def _walk_rows(context: NodeContext, view: View, target: View) -> None:
    """Compute a row of several slices per work-item; two columns stay in registers while x
    moves.
    """
    kernel, slices = target.kernel, context.output.slices
    together = -(-slices // -(-slices // SLICES))
    rows = context.output.pixels // context.output.shape[2]
    line, group = kernel.ids(rows, -(-slices // together))
    first = group * together
    if slices % together:
        first = kernel.let(minimum(group * together, target.slices - together), "first")
    start = kernel.let(line * target.axis(2), "start")
    image, y, _ = target.coordinates(start)
    top, bottom, down = _between(context, view, y, 0)
    zero = const(0.0, kernel.real, 4)
    sides = [[kernel.variable(zero, side) for side in "ab"] for _ in range(together)]
    passed = kernel.variable(const(-1), "passed")
    with kernel.loop(target.axis(2), title="x") as x:
        left, right, along = _between(context, view, x, 1)
        both = kernel.let(left + right, "both")
        with kernel.when(both.differs(passed)):
            kernel.set(passed, both)
            for number, pair in enumerate(sides):
                for side, column in zip(pair, (left, right), strict=True):
                    above, below = (
                        view.load(view.pixel([image, row, column]), first + number)
                        for row in (top, bottom)
                    )
                    kernel.set(side, above * (1.0 - down) + below * down)
        for number, (before, after) in enumerate(sides):
            value = before * (1.0 - along) + after * along
            target.store(start + x, first + number, value)


def _between(
    context: NodeContext, view: View, at: Expression, axis: int
) -> tuple[Expression, Expression, Expression]:
    """Return the rows (axis 0) or columns of x before and after one of y, and the fraction."""
    attributes, kernel = context.attributes, view.kernel
    assert isinstance(attributes, Resize)
    half = 0.5 if attributes.half_pixel_centers else 0.0
    step = float(resize_step(attributes, axis, context.input.shape[1 + axis]))
    position = kernel.let((convert(at, "float") + half) * step - half, "position")
    rounded_down = floor(position)
    lower = kernel.let(maximum(convert(rounded_down, "int"), 0), "lower")
    upper = kernel.let(minimum(convert(rounded_down, "int") + 1, view.axis(1 + axis) - 1), "upper")
    return lower, upper, convert(kernel.let(position - convert(lower, "float"), "way"), kernel.real)


OP = Op(
    name="resize_bilinear",
    attributes=Resize,
    infer=infer,
    reference=reference,
    variants=(Variant("bilinear", build),),
    cases=(
        Case(("f32[1,1,1,1]",), Resize((3, 5))),
        Case(("f32[2,5,7,3]",), Resize((11, 13))),
        Case(("f32[2,5,7,3]",), Resize((11, 13), align_corners=True)),
        Case(("f32[2,5,7,3]",), Resize((11, 13), half_pixel_centers=True)),
        Case(("f32[1,11,13,8]",), Resize((5, 7))),
        Case(("f32[2,3,5,37]",), Resize((7, 11))),
        Case(("f32[1,1,1,29]",), Resize((5, 3), half_pixel_centers=True)),
        Case(("f32[1,11,13,8]",), Resize((5, 1), align_corners=True)),
        Case(("f32[1,11,13,5]",), Resize((3, 7), half_pixel_centers=True)),
    ),
)

"""y = the nearest pixel of x."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression, convert, minimum
from fourfold.ops.base import Case, Op
from fourfold.ops.base.rules import ANY, Resize, resize_step, resized_type
from fourfold.ops.kernels.move import move_variants
from fourfold.types import TensorType


def nearest(attributes: Resize, axis: int, size: int) -> np.ndarray:
    """Return, for each row (axis 0) or column of y, the one of x that it repeats."""
    half = np.float32(0.5 if attributes.half_pixel_centers else 0)
    steps = np.arange(attributes.size[axis], dtype=np.float32)
    position = (steps + half) * resize_step(attributes, axis, size)
    # Aligned corners round to the nearest; otherwise a pixel extends to the start of the next.
    rounded = np.floor(position + np.float32(0.5) if attributes.align_corners else position)
    indices: np.ndarray = np.minimum(rounded.astype(np.int64), size - 1)
    return indices


def reference(attributes: Resize, x: np.ndarray) -> np.ndarray:
    rows, columns = (nearest(attributes, axis, x.shape[1 + axis]) for axis in (0, 1))
    return x.take(rows, axis=1).take(columns, axis=2)


def source(
    attributes: Resize, at: list[Expression], src: TensorType, dst: TensorType
) -> tuple[list[Expression], Expression | None]:
    coordinates = []
    for axis in (0, 1):
        step = float(resize_step(attributes, axis, src.shape[1 + axis]))
        position = convert(at[1 + axis], "float")
        position = (position + 0.5 if attributes.half_pixel_centers else position) * step
        index = convert(position + 0.5 if attributes.align_corners else position, "int")
        coordinates.append(minimum(index, src.shape[1 + axis] - 1))
    return [at[0], *coordinates, at[3]], None


OP = Op(
    name="resize_nearest",
    attributes=Resize,
    infer=resized_type("resize_nearest", ANY),
    reference=reference,
    variants=move_variants(source),
    cases=(
        Case(("f32[1,1,1,1]",), Resize((3, 5))),
        Case(("f32[2,5,7,3]",), Resize((11, 13))),
        Case(("f32[2,5,7,3]",), Resize((11, 13), align_corners=True)),
        Case(("f32[2,5,7,3]",), Resize((11, 13), half_pixel_centers=True)),
        Case(("f32[1,11,13,8]",), Resize((5, 7))),
        Case(("f32[1,11,13,8]",), Resize((5, 1), align_corners=True)),
        Case(("f32[1,11,13,5]",), Resize((3, 7), half_pixel_centers=True)),
        Case(("i32[1,3,5,3]",), Resize((5, 7))),
    ),
)

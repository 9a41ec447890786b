"""Operators that sample images at fractional positions."""

from __future__ import annotations

import numpy as np

from fourfold.formats.channels_first import give_channels_first, to_channels_last
from fourfold.formats.onnx.operation import Operation
from fourfold.formats.onnx.rule import converts
from fourfold.ops.batch_matmul import BatchMatmul
from fourfold.ops.grid_sample import GridSample
from fourfold.ops.reshape import Reshape
from fourfold.ops.roi_align import RoiAlign

_MODES = {"bilinear": "linear", "bicubic": "cubic"}  # older names


@converts("GridSample")
def grid_sample(op: Operation) -> None:
    """grid_sample between transposes."""
    mode = op.text_attribute("mode", "linear")
    attributes = GridSample(
        _MODES.get(mode, mode),
        op.text_attribute("padding_mode", "zeros"),
        bool(op.attribute("align_corners", 0)),
    )
    image = to_channels_last(op, op.input(0))
    value = op.add("grid_sample", image, op.input(1), attributes=attributes, part="sampled")
    give_channels_first(op, value)


@converts("RoiAlign")
def roi_align(op: Operation) -> None:
    """roi_align between transposes."""
    newer = "half_pixel" if op.version >= 16 else "output_half_pixel"
    kind = op.text_attribute("coordinate_transformation_mode", newer)
    attributes = RoiAlign(
        (op.attribute("output_height", 1), op.attribute("output_width", 1)),
        op.attribute("sampling_ratio", 0),
        op.real_attribute("spatial_scale", 1.0),
        half_pixel=kind == "half_pixel",
        largest=op.text_attribute("mode", "avg") == "max",
    )
    image = to_channels_last(op, op.input(0))
    inputs = (image, op.input(1), op.input(2))
    value = op.add("roi_align", *inputs, attributes=attributes, part="cells")
    give_channels_first(op, value)


@converts("AffineGrid")
def affine_grid(op: Operation) -> None:
    """batch_matmul of all positions with the matrices."""
    sizes = op.integers(1, "size")
    batch = sizes[0]
    inner = sizes[2:]
    grid = np.stack(
        [*_positions(inner, bool(op.attribute("align_corners", 0))), np.ones(inner)], -1
    )
    flat = grid.reshape(1, -1, len(inner) + 1).astype(op.input_type(0).dtype.numpy)
    product = op.add(
        "batch_matmul",
        op.add_constant(flat, "places"),
        op.input(0),
        attributes=BatchMatmul(transposed=True),
        part="moved",
    )
    op.give("reshape", product, attributes=Reshape((batch, *inner, len(inner))))


def _positions(sizes: tuple[int, ...], corners: bool) -> list[np.ndarray]:
    """Return the position of each element along each axis, from -1 to 1, last axis first."""
    lines = []
    for size in sizes:
        steps = np.arange(size)
        line = (2 * steps + 1) / size - 1
        if corners:
            line = 2 * steps / (size - 1) - 1 if size > 1 else np.zeros(1)
        lines.append(line)
    return [*np.meshgrid(*lines, indexing="ij")][::-1]

"""Ops that resize images."""

from __future__ import annotations

from fourfold.formats.tflite.write_graph.node_writer import NodeWriter
from fourfold.formats.tflite.write_graph.rule import Grids, writes
from fourfold.op.rules import Resize

_OPERATORS = {
    "resize_bilinear": "RESIZE_BILINEAR",
    "resize_nearest": "RESIZE_NEAREST_NEIGHBOR",
}


@writes(*_OPERATORS, grids=Grids.SAME)
def resize_image(to: NodeWriter) -> None:
    """RESIZE_BILINEAR or RESIZE_NEAREST_NEIGHBOR."""
    attributes = to.attributes(Resize)
    size = to.integers(attributes.size, "size")
    to.give(
        _OPERATORS[to.node.op],
        [to.input(0), size],
        align_corners=attributes.align_corners,
        half_pixel_centers=attributes.half_pixel_centers,
    )

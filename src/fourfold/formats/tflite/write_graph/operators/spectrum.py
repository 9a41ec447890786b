"""Fourier transforms."""

from __future__ import annotations

from fourfold.formats.tflite.write_graph.node_writer import NodeWriter
from fourfold.formats.tflite.write_graph.rule import writes
from fourfold.ops.rfft2d import Rfft2d


@writes("rfft2d")
def rfft2d(to: NodeWriter) -> None:
    """RFFT2D, for lengths that are powers of two."""
    size = to.attributes(Rfft2d).size
    if any(number & (number - 1) for number in size):
        raise to.refuse(f"LiteRT only transforms powers of two, not {size[0]} by {size[1]}")
    to.give("RFFT2D", [to.input(0), to.integers(size, "lengths")])

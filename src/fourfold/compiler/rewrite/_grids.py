"""Finds values that are on a grid: integer multiples of a step, within bounds."""

from __future__ import annotations

from typing import NamedTuple

from fourfold.graph import Graph, Node
from fourfold.ops.fake_quantize import FakeQuantize
from fourfold.ops.pad import Pad

# Ops whose results consist of elements of their inputs (or of the first input).
PICKS = {
    *("batch_to_space", "concat", "depth_to_space", "identity", "max_pool2d", "maximum", "minimum"),
    *("mirror_pad", "planes_to_pixels", "reduce_max", "reduce_min", "reshape", "resize_nearest"),
    *("slice", "space_to_depth", "tile", "transpose", "gather", "gather_nd"),
}
_OF_FIRST = {"gather", "gather_nd"}


class Grid(NamedTuple):
    """The numbers k * distance for all integers k from low to high."""

    distance: float
    low: int
    high: int


def find_grids(graph: Graph) -> dict[str, Grid]:
    """Return the grids of values that were rounded to one, and of values picked from such."""
    grids: dict[str, Grid] = {}
    for node in graph.nodes:
        grid = None if node.tail else _grid_of(node, grids)
        if grid is not None:
            grids[node.outputs[0]] = grid
    return grids


def _grid_of(node: Node, grids: dict[str, Grid]) -> Grid | None:
    attributes = node.attributes
    if isinstance(attributes, FakeQuantize):
        return Grid(attributes.distance, attributes.low, attributes.high)
    if isinstance(attributes, Pad):
        grid = grids.get(str(node.inputs[0]))
        holds = grid is not None and attributes.value == 0 and grid.low <= 0 <= grid.high
        return grid if holds else None
    if node.op not in PICKS:
        return None
    read = node.inputs[:1] if node.op in _OF_FIRST else node.inputs
    input_grids = {grids.get(str(name)) for name in read}
    return input_grids.pop() if len(input_grids) == 1 else None

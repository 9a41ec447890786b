"""Which values are known to lie on a grid: multiples of a distance, between two of them."""

from __future__ import annotations

from typing import NamedTuple

from fourfold.graph import Graph, Node
from fourfold.ops.fake_quantize import FakeQuantize
from fourfold.ops.pad import Pad

# Every element of their results is one of their (first) inputs.
PICKS = {
    *("batch_to_space", "concat", "depth_to_space", "identity", "max_pool2d", "maximum", "minimum"),
    *("mirror_pad", "planes_to_pixels", "reduce_max", "reduce_min", "reshape", "resize_nearest"),
    *("slice", "space_to_depth", "tile", "transpose", "gather", "gather_nd"),
}
_OF_FIRST = {"gather", "gather_nd"}


class Grid(NamedTuple):
    """The numbers k * distance for all whole k from low to high."""

    distance: float
    low: int
    high: int


def find_grids(graph: Graph) -> dict[str, Grid]:
    """The grids of values that were rounded to one, and of what only picks among such."""
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
    found = {grids.get(str(name)) for name in read}
    return found.pop() if len(found) == 1 else None

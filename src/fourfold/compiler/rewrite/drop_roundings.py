"""x = fake_quantize(..); y = max_pool2d(x); z = fake_quantize(y)  ->  z = y, on the same grid."""

from __future__ import annotations

from collections.abc import Mapping

from fourfold.compiler.rewrite._grids import Grid, find_grids
from fourfold.compiler.rewrite._names import Names
from fourfold.graph import Graph, Node
from fourfold.ops.fake_quantize import FakeQuantize


def drop_roundings(graph: Graph) -> Graph:
    grids, names = find_grids(graph), Names(graph)
    kept = [
        node
        for node in graph.nodes
        if not _has_no_effect(node, grids) or not names.equal(node.outputs[0], str(node.inputs[0]))
    ]
    return names.apply(kept)


def _has_no_effect(node: Node, grids: Mapping[str, Grid]) -> bool:
    """Return whether a node rounds to a grid that its input is already on.

    Ties do not matter there, but a rounding with its own tie rule may be part of what the model's
    format specifies, so it stays.
    """
    grid = node.attributes
    if not isinstance(grid, FakeQuantize) or node.tail or grid.step or grid.pivot is not None:
        return False
    return grids.get(str(node.inputs[0])) == Grid(grid.scale, grid.low, grid.high)

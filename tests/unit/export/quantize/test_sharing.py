"""Choice of nodes that compute on integers, of values that share a grid, and of ranges to
measure.
"""

from __future__ import annotations

from dataclasses import replace

from float_networks import GraphDraft, small_classifier

from fourfold.export.quantize.layers import find_layers, integer_nodes, named_layers
from fourfold.export.quantize.method import METHODS
from fourfold.export.quantize.sharing import SharedGrids, share_grids
from fourfold.graph import Graph
from fourfold.ops.concat import Concat
from fourfold.ops.reshape import Reshape
from fourfold.ops.softmax import Softmax
from fourfold.types import DType


def shared(graph: Graph) -> SharedGrids:
    layers = find_layers(graph, METHODS["int8"])
    return share_grids(graph, integer_nodes(graph, layers, (), METHODS["int8"]), DType.I8)


def test_a_clamp_belongs_to_its_layer() -> None:
    layers = find_layers(small_classifier(), METHODS["int8"])
    first = layers[0]
    assert (first.name, first.op) == ("first", "conv2d")
    assert first.nodes == {"first/sum", "first"}
    assert "flat" not in [layer.name for layer in layers]


def test_a_clamped_sum_is_not_looked_at() -> None:
    found = shared(small_classifier())
    assert "first" in found.observed
    assert "first/sum" not in found.observed
    assert found.root("first/sum") == found.root("first")


def test_joined_values_share_a_grid() -> None:
    found = shared(small_classifier())
    assert found.root("joined") == found.root("wide") == found.root("both")
    assert {"joined", "wide"} <= found.observed
    assert "both" not in found.observed
    assert found.root("mean") == found.root("flat") != found.root("both")


def test_a_softmax_has_its_own_grid() -> None:
    found = shared(small_classifier())
    grid = found.fixed_grid("scores")
    assert grid is not None
    assert (grid.scale, grid.zero_point) == ((1 / 256,), (-128,))
    assert "scores" not in found.observed


def test_a_fixed_grid_that_meets_others_is_changed() -> None:
    draft = GraphDraft(x=(1, 4, 4, 8))
    left = draft.conv("left", "x", 4)
    right = draft.node("softmax", "right", "x", attributes=Softmax())
    moved = draft.node("reshape", "moved", right, attributes=Reshape((1, 4, 4, 8)))
    draft.node("concat", "both", left, moved, attributes=Concat(3))
    draft.conv("last", "both", 4)
    found = shared(draft.graph("last"))
    assert found.fixed_grid("moved") is not None
    assert found.fixed_grid("both") is None
    assert found.regrids == {("both", 1)}
    assert "both" in found.observed  # its range is wider than those of the other inputs


def test_moves_follow_their_neighbours() -> None:
    draft = GraphDraft(x=(1, 4, 4, 8))
    before = draft.node("reshape", "before", "x", attributes=Reshape((1, 2, 8, 8)))
    conv = draft.conv("conv", before, 8)
    cosine = draft.node("cos", "cosine", conv)
    draft.node("reshape", "after", cosine, attributes=Reshape((1, 4, 4, 8)))
    graph = draft.graph("after")
    layers = find_layers(graph, METHODS["int8"])
    assert integer_nodes(graph, layers, (), METHODS["int8"]) == {"before", "conv"}
    assert integer_nodes(graph, layers, {"conv"}, METHODS["int8"]) == frozenset()


def test_layers_are_known_by_value_node_and_op() -> None:
    layers = find_layers(small_classifier(), METHODS["int8"])
    assert named_layers(layers, ["first/sum"]) == {"first"}
    assert named_layers(layers, ["conv2d"]) == {"first", "back", "wide"}


def test_nodes_that_only_join_outputs_stay_float() -> None:
    draft = GraphDraft(x=(1, 4, 4, 8))
    near = draft.node("reshape", "near", draft.conv("a", "x", 4), attributes=Reshape((1, 64)))
    far = draft.node("reshape", "far", draft.conv("b", "x", 4), attributes=Reshape((1, 64)))
    both = draft.node("concat", "both", near, far, attributes=Concat(1))
    draft.node("reshape", "boxes", both, attributes=Reshape((32, 4)))
    graph = draft.graph("boxes")
    layers = find_layers(graph, METHODS["int8"])
    assert integer_nodes(graph, layers, (), METHODS["int8"]) == {"a", "b", "near", "far"}
    whole = replace(METHODS["int8"], integer_ports=True)
    everything = integer_nodes(graph, layers, (), whole)
    assert everything == {"a", "b", "near", "far", "both", "boxes"}

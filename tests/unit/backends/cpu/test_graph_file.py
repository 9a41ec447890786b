"""Serialized graphs: all attributes round-trip, code is not written, damage is detected."""

from __future__ import annotations

import numpy as np
import pytest
from op_inputs import case_graph

from fourfold.backends.cpu.numpy.graph_file import read_graph, write_graph
from fourfold.errors import ModelError
from fourfold.graph import Graph, Node, Step
from fourfold.ops.base import registry
from fourfold.ops.custom import Custom
from fourfold.types import DType, Quantization, TensorType

NAMES = [name for name, op in registry().items() if op.cases]
MADE_BY_PASSES = {"formula", "joined"}  # cached graphs do not contain them
F32 = TensorType(DType.F32, (2, 3))


@pytest.mark.parametrize("name", NAMES)
def test_every_op_round_trips(name: str) -> None:
    op = registry()[name]
    graph, _ = case_graph(op, op.cases)
    content = write_graph(graph)
    if name in MADE_BY_PASSES:
        assert content is None
        return
    assert content is not None
    again = read_graph(content)
    assert str(again) == str(graph)
    assert again.nodes == graph.nodes
    assert again.constants.keys() == graph.constants.keys()
    for key, array in graph.constants.items():
        np.testing.assert_array_equal(again.constants[key], array)


def small(**changes: object) -> Graph:
    nodes = (Node("add", ("x", "s"), ("y",), name="y"),)
    types = dict.fromkeys(("x", "s", "y"), F32)
    own = {"states": {"s": "y"}, "starts": {"s": np.ones((2, 3), np.float32)}}
    grids = {"x": Quantization((0.5,), (3,))}
    inputs = {"quantization": grids, **own, **changes}
    return Graph(nodes, ("x", "s"), ("y",), types, **inputs)  # type: ignore[arg-type]


def test_states_and_quantization_round_trip() -> None:
    content = write_graph(small())
    assert content is not None
    again = read_graph(content)
    assert (again.states, again.quantization) == (small().states, small().quantization)
    np.testing.assert_array_equal(again.starts["s"], np.ones((2, 3)))
    assert again.constants == {}


def test_graphs_with_code_are_not_written() -> None:
    (node,) = small().nodes
    code = Node("custom", ("x",), ("y",), Custom("Own", b"", (F32,)))
    fused = Node("add", ("x", "s"), ("y",), tail=(Step("relu", None, (None,)),))
    for changed in (code, fused):
        graph = Graph((changed,), ("x", "s"), ("y",), dict.fromkeys(("x", "s", "y"), F32))
        assert write_graph(graph) is None
    texts = {"t": np.array([b"a"], object)}
    graph = Graph((node,), ("x", "s"), ("y",), dict.fromkeys(("x", "s", "y"), F32), texts)
    assert write_graph(graph) is None


def test_rejects_damaged_graphs() -> None:
    content = write_graph(small())
    assert content is not None
    for damaged in (b"", content[:20], content[:-3], content.replace(b'"add"', b'"odd"')):
        with pytest.raises(ModelError, match="damaged"):
            read_graph(damaged)
    with pytest.raises(ModelError, match="damaged"):
        read_graph(content.replace(b'["x","s"],["y"]', b'["x","z"],["y"]', 1))

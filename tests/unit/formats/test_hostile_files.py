"""Small files that ask for much work are refused, or their operators run on the CPU."""

from __future__ import annotations

import io
import zipfile
from itertools import pairwise

import numpy as np
import onnx_writer as write
import pytest

from fourfold.errors import ModelError, UnsupportedError
from fourfold.formats import read_model, source
from fourfold.formats.budget import Budget
from fourfold.formats.inputs import ReadOptions
from fourfold.formats.onnx import walk


def limit_budget(monkeypatch: pytest.MonkeyPatch, **limits: int) -> None:
    monkeypatch.setattr(Budget, "of", staticmethod(lambda size: Budget(1 << 20, **limits)))


def chain(count: int) -> bytes:
    names = ["x", *(f"v{number}" for number in range(count - 1)), "y"]
    pairs = pairwise(names)
    nodes = [write.node("Relu", [a], [b]) for a, b in pairs]
    return write.model(write.graph(nodes, [("x", "float", [1, 4])], [("y", "float", None)]))


def test_rejects_files_with_too_many_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    limit_budget(monkeypatch, operators=5)
    assert len(read_model(chain(5)).main.nodes) == 5
    with pytest.raises(ModelError, match="has too many operators"):
        read_model(chain(6))


def test_refuses_operators_that_become_too_many_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    limit_budget(monkeypatch, nodes=20)
    constants = {"w": np.zeros((1, 16, 4), np.float32), "r": np.zeros((1, 16, 4), np.float32)}
    with pytest.raises(UnsupportedError, match="too many nodes for its size"):
        read_model(write.small_model("LSTM", {"x": [9, 1, 4]}, constants, hidden_size=4))


def calls(levels: int) -> bytes:
    """Return a model of functions that each call the next one twice."""
    helper, functions = write.helper, []
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    for level in range(levels):
        domain, op = ("f", f"f{level + 1}") if level < levels - 1 else ("", "Relu")
        made = [helper.make_node(op, ["x"], [name], domain=domain) for name in ("a", "b")]
        nodes = [*made, write.node("Add", ["a", "b"], ["y"])]
        functions.append(helper.make_function("f", f"f{level}", ["x"], ["y"], nodes, opsets))
    call = helper.make_node("f0", ["x"], ["y"], domain="f")
    graph = write.graph([call], [("x", "float", [1, 4])], [("y", "float", None)])
    model = helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=9)
    content: bytes = model.SerializeToString()
    return content


def test_rejects_functions_that_grow_when_inlined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "MAX_VALUES", 50)
    assert read_model(calls(3)).main.nodes
    with pytest.raises(ModelError, match="inlining it would exceed 50 values"):
        read_model(calls(7))


def test_rejects_functions_that_become_too_many_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU engine would inline them, too."""
    limit_budget(monkeypatch, nodes=40)
    assert read_model(calls(3)).main.nodes
    with pytest.raises(ModelError, match="its functions call each other too often"):
        read_model(calls(7), ReadOptions(keep_unsupported=True))


def test_transposed_weights_of_several_operators_are_one_constant() -> None:
    nodes = [write.node("Conv", [a, "w"], [b]) for a, b in pairwise(["x", "a", "b", "y"])]
    constants = {"w": np.ones((4, 4, 3, 3), np.float32)}
    ports = [("x", "float", [1, 4, 9, 9])], [("y", "float", None)]
    graph = read_model(write.model(write.graph(nodes, *ports, constants))).main
    weights = {node.inputs[1] for node in graph.nodes if node.op == "conv2d"}
    assert len(weights) == 1


def archive(count: int) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        for number in range(count):
            file.writestr(zipfile.ZipInfo(f"{number:04}"), b"")
    return content.getvalue()


def test_does_not_list_archives_with_too_many_members(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MAX_FILES", 4)
    assert len(source.zip_members(archive(10))) == 10
    content, listed = archive(100), list[object]()
    monkeypatch.setattr(source.zipfile, "ZipFile", listed.append)
    with pytest.raises(ModelError, match="zip archive with too many members for a model"):
        read_model(content)
    assert listed == []


def test_damaged_ends_of_archives_have_no_members() -> None:
    for content in (archive(1)[:-1], archive(1)[:30], b"PK\x03\x04", b"PK\x03\x04PK\x05\x06"):
        assert source.zip_members(content) == ()

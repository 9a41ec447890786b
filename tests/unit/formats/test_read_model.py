"""Results of `read_model`: names, outputs, shapes and signatures; and errors for other files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tflite_writer import Operator, Signature, Subgraph, Tensor, constant, write, write_model

from fourfold.backends.cpu.reference import evaluate
from fourfold.errors import InputError, ModelError, UnsupportedError
from fourfold.formats import ReadOptions, read_model

RELU = Operator("RELU", ["x"], ["y"])
SIMPLE = write([Tensor("x", (1, 3)), Tensor("y", (1, 3))], [RELU], ["x"], ["y"])


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "empty"),
        (b"PK\x03\x04rest", "zip"),
        (b"  <!doctype html>", "HTML"),
        (b"\x08\x07\x12\x07pytorch", "ONNX"),
        (b"version https://git-lfs.github.com", "Git LFS"),
        (b"anything at all", "an unknown format"),
        (b"TFL", "an unknown format"),
    ],
)
def test_error_names_other_content(content: bytes, word: str) -> None:
    with pytest.raises(ModelError, match=word):
        read_model(content)


def test_rejects_missing_files_and_folders_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_model(tmp_path / "missing.tflite")
    with pytest.raises(InputError, match="no model of a known format"):
        read_model(tmp_path)
    (tmp_path / "one.tflite").touch()
    with pytest.raises(InputError, match=r"it holds one\.tflite\n.*pass the file: '.*one\.tflite'"):
        read_model(tmp_path)


def test_constants_are_views_of_the_mapped_file(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    tensors = [Tensor("x", (1, 3)), constant("c", [[1, 2, 3]], "float32"), Tensor("y", (1, 3))]
    path.write_bytes(write(tensors, [Operator("ADD", ["x", "c"], ["y"])], ["x"], ["y"]))
    constant_array = read_model(str(path)).main.constants["c"]
    assert not constant_array.flags.owndata
    assert not constant_array.flags.writeable
    assert read_model(path).main.constants["c"].tolist() == [[1, 2, 3]]


def test_prints_graph_as_text() -> None:
    assert str(read_model(SIMPLE).main).splitlines() == [
        "input x: f32[1,3]",
        "y = relu(x): f32[1,3]",
        "output y",
    ]


def test_names_are_made_unique() -> None:
    tensors = [Tensor("t", (2,)), Tensor("t", (2,)), Tensor("", (2,)), Tensor("t", (2,))]
    operators = [Operator("ADD", [0, 1], [2]), Operator("SUB", [0, 2], [3])]
    model = read_model(write(tensors, operators, [0, 1], [3, 2, 3]))
    assert model.input_names == ("t", "t:1")
    assert model.output_names == ("t", "tensor_2", "t:1")
    assert len(set(model.main.outputs)) == 3
    assert [node.name for node in model.main.nodes[:2]] == ["tensor_2", "t:2"]


def test_outputs_may_be_inputs_and_constants() -> None:
    model = read_model(write([Tensor("x", (2,)), constant("c", [1, 2])], [], ["x"], ["x", "c"]))
    assert model.output_names == ("x", "c")
    assert not set(model.main.outputs) & {"x", "c"}
    x = np.array([3, 4], np.float32)
    outputs = evaluate(model.main, {"x": x})
    assert [array.tolist() for array in outputs.values()] == [[3, 4], [1, 2]]


def test_shapes_option_changes_the_batch() -> None:
    tensors = [
        Tensor("x", (1, 2, 2, 3), signature=(-1, 2, 2, 3)),
        constant("shape", [1, 12]),
        Tensor("y", (1, 12)),
    ]
    data = write(tensors, [Operator("RESHAPE", ["x", "shape"], ["y"])], ["x"], ["y"])
    assert read_model(data).main.types["y"].shape == (1, 12)
    assert read_model(data, ReadOptions({"x": (5, 2, 2, 3)})).main.types["y"].shape == (5, 12)
    with pytest.raises(InputError, match="do not fill"):
        read_model(data, ReadOptions({"x": (1, 2, 2, 5)}))


@pytest.mark.parametrize(
    "shapes", [{"z": (1, 3)}, {"x": (3,)}, {"x": (0, 3)}, {"x": (2**40, 3)}, {"x": "ab"}]
)
def test_rejects_invalid_shapes(shapes: dict[str, tuple[int, ...]]) -> None:
    with pytest.raises(InputError):
        read_model(SIMPLE, ReadOptions(shapes))


def test_damage_in_another_graph_is_a_refusal() -> None:
    tensors = [Tensor("x", (2,)), Tensor("y", (2,))]
    broken = Subgraph(tensors, [Operator("NEG", ["y"], ["x"])], ["x"], ["y"], "broken")
    model = read_model(write_model([Subgraph(tensors, [RELU], ["x"], ["y"]), broken]))
    assert model.graphs == (model.main, None)
    assert [refusal.node for refusal in model.refusals] == ["broken"]


def test_signature_selects_the_main_graph() -> None:
    tensors = [Tensor("x", (2,)), Tensor("y", (2,))]
    graphs = [
        Subgraph(tensors, [RELU], ["x"], ["y"], "first"),
        Subgraph(tensors, [Operator("NEG", ["x"], ["y"])], ["x"], ["y"], "second"),
        Subgraph(tensors, [Operator("UNIQUE", ["x"], ["y"])], ["x"], ["y"], "third"),
    ]
    signatures = [Signature(f"s{i}", {"in": 0}, {"out": 1}, i) for i in range(3)]
    data = write_model(graphs, signatures, "three", {"note": b"hello"})
    model = read_model(data)
    assert model.main.name == "first"
    assert [graph and graph.name for graph in model.graphs] == ["first", "second", None]
    assert model.signatures["s1"].inputs == {"in": "x"}
    assert model.signatures["s1"].outputs == {"out": "y"}
    assert model.description == "three"
    assert model.metadata.properties == {"file description": "three", "note": "hello"}
    assert read_model(data, ReadOptions(signature="s1")).main.name == "second"
    with pytest.raises(UnsupportedError, match="UNIQUE 'y'"):
        read_model(data, ReadOptions(signature="s2"))
    with pytest.raises(InputError, match="'s0', 's1', 's2'"):
        read_model(data, ReadOptions(signature="s4"))


def test_empty_constants_are_not_inputs_of_a_part() -> None:
    tensors = [Tensor("x", (1, 3)), Tensor("e", (0,), "int32"), Tensor("y", (3,))]
    content = write(tensors, [Operator("UNIQUE", ["x", "e"], ["y"])], ["x"], ["y"])
    source = read_model(content, ReadOptions(keep_unsupported=True)).source_graph
    assert source is not None
    assert source.reads("y") == ("x",)


@pytest.mark.parametrize(
    ("signature", "sizes"),
    [((-1, 3), (-1, 3)), ((-1, -156), (-1, 3)), ((1, 3), ()), ((-1,), ()), ((-1, 3, 3), ())],
)
def test_only_open_sizes_are_read_from_a_shape_signature(
    signature: tuple[int, ...], sizes: tuple[int, ...]
) -> None:
    tensors = [Tensor("x", (1, 3), signature=signature), Tensor("y", (1, 3))]
    assert read_model(write(tensors, [RELU], ["x"], ["y"])).open_sizes == (sizes,)

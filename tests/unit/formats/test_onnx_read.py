"""ONNX files: names, constants, sizes, functions, branches, and rejected content."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_writer import graph, helper, model, node, numpy_helper, onnx, small_model, value

from fourfold.backends.cpu.reference import evaluate
from fourfold.errors import InputError, ModelError, UnsupportedError
from fourfold.formats import ReadOptions, find_format, model_files, read_model
from fourfold.types import DType

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


def run(content: bytes | Path, *arrays: np.ndarray, **options: Any) -> list[np.ndarray]:
    main = read_model(content, ReadOptions(**options)).main
    return list(evaluate(main, dict(zip(main.arguments, arrays, strict=True))).values())


def test_recognizes_onnx_by_its_fields() -> None:
    content = small_model("Relu", {"x": (3, 4)})
    assert find_format(content).name == "ONNX"
    result = read_model(content)
    assert (result.format, result.cpu_engine) == ("ONNX", "onnxruntime")


def test_rejects_other_protobuf_files() -> None:
    with pytest.raises(ModelError, match="not an ONNX model"):
        read_model(b"\x08\x05\x12\x01a")


@pytest.mark.parametrize("content", [b"version https://git-lfs.github.com", b"<html>", b""])
def test_rejects_other_content_with_the_onnx_extension(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match="not a model that can be read"):
        read_model(path)


def test_keeps_names_of_the_file() -> None:
    nodes = [node("Relu", ["in/1"], ["out:0"]), node("Identity", ["in/1"], ["same"])]
    ports = [("in/1", "float", (3, 4))], [("out:0", "float", None), ("same", "float", None)]
    result = read_model(model(graph(nodes, *ports)))
    assert result.input_names == ("in/1",)
    assert result.output_names == ("out:0", "same")


def test_initializers_listed_as_inputs_are_constants() -> None:
    inputs = [("x", "float", (3, 4)), ("w", "float", (4,))]
    nodes, weights = [node("Mul", ["x", "w"], ["y"])], np.arange(4, dtype=np.float32)
    content = model(graph(nodes, inputs, [("y", "float", None)], {"w": weights}))
    assert read_model(content).input_names == ("x",)
    assert np.array_equal(run(content, X)[0], X * weights)


def test_unused_nodes_are_not_read() -> None:
    nodes = [node("Unheard", ["x"], ["z"]), node("Relu", ["x"], ["y"])]
    assert read_model(model(graph(nodes, [("x", "float", (3,))], [("y", "float", None)])))


def tensor(name: str, kind: str, shape: tuple[int, ...], **fields: object) -> Any:
    result = onnx.TensorProto(name=name, data_type=getattr(onnx.TensorProto, kind), dims=shape)
    for field, content in fields.items():
        if field == "raw_data":
            result.raw_data = content
        else:
            getattr(result, field).extend(content)
    return result


def bits(array: np.ndarray) -> list[int]:
    return [int(number) for number in array.reshape(-1).view(np.uint16)]


BFLOATS = (X.view(np.uint32) >> 16).astype(np.uint16)
SMALL = np.array([-1, 0, 7, -8], np.int8)
TENSORS = {
    "floats": (tensor("c", "FLOAT", (3, 4), float_data=X.ravel()), X),
    "raw": (tensor("c", "FLOAT", (3, 4), raw_data=X.tobytes()), X),
    "doubles": (tensor("c", "DOUBLE", (2,), double_data=[0.1, -1]), np.array([0.1, -1])),
    "longs": (tensor("c", "INT64", (2,), int64_data=[-5, 2**40]), np.array([-5, 2**40])),
    "bytes": (tensor("c", "INT8", (4,), int32_data=SMALL), SMALL),
    "bools": (tensor("c", "BOOL", (3,), int32_data=[0, 1, 1]), np.array([False, True, True])),
    "raw bools": (tensor("c", "BOOL", (2,), raw_data=b"\0\2"), np.array([False, True])),
    "unsigned": (tensor("c", "UINT32", (1,), uint64_data=[2**32 - 1]), np.array([2**32 - 1], "u4")),
    "halves": (
        tensor("c", "FLOAT16", (3, 4), int32_data=bits(X.astype(np.float16))),
        X.astype(np.float16).astype(np.float32),
    ),
    "raw halves": (
        tensor("c", "FLOAT16", (3, 4), raw_data=X.astype(np.float16).tobytes()),
        X.astype(np.float16).astype(np.float32),
    ),
    "bfloats": (
        tensor("c", "BFLOAT16", (3, 4), int32_data=bits(BFLOATS)),
        (BFLOATS.astype(np.uint32) << 16).view(np.float32),
    ),
    "raw bfloats": (
        tensor("c", "BFLOAT16", (3, 4), raw_data=BFLOATS.tobytes()),
        (BFLOATS.astype(np.uint32) << 16).view(np.float32),
    ),
    "four bits": (tensor("c", "INT4", (3,), raw_data=bytes([0xF8, 0x07])), SMALL[[3, 0, 2]]),
    "unsigned four bits": (
        tensor("c", "UINT4", (3,), raw_data=bytes([0xF8, 0x07])),
        np.array([8, 15, 7], np.uint8),
    ),
    "complex": (tensor("c", "COMPLEX64", (1,), float_data=[1, 2]), np.array([1 + 2j], "c8")),
}


@pytest.mark.parametrize("name", TENSORS)
def test_reads_constants_in_every_encoding(name: str) -> None:
    stored, expected = TENSORS[name]
    created = graph([node("Identity", ["c"], ["y"])], [], [("y", "float", None)])
    created.initializer.append(stored)  # type: ignore[attr-defined]
    main = read_model(model(created)).main
    (result,) = (main.constants[name] for name in main.constants)
    assert result.dtype == expected.dtype
    assert np.array_equal(result.reshape(expected.shape), expected)


def test_raw_floats_are_a_view_of_the_file() -> None:
    content = small_model("Mul", {"x": (3, 4)}, {"c": X})
    main = read_model(content).main
    assert np.shares_memory(main.constants["c"], np.frombuffer(content, np.uint8))


def test_fp16_models_have_fp16_inputs_and_outputs() -> None:
    half = X.astype(np.float16)
    ports = [("x", "float16", (3, 4))], [("y", "float16", (3, 4))]
    content = model(graph([node("Mul", ["x", "c"], ["y"])], *ports, {"c": half}))
    main = read_model(content).main
    assert main.types["x"].dtype is DType.F16
    (result,) = run(content, half)
    assert result.dtype == np.float16
    assert np.allclose(result, half * half, atol=1e-3)


def model_with_external_data(location: str, offset: int = 0, length: int = X.nbytes) -> bytes:
    result = graph(
        [node("Mul", ["x", "c"], ["y"])], [("x", "float", (3, 4))], [("y", "float", None)]
    )
    stored = tensor("c", "FLOAT", (3, 4))
    stored.data_location = onnx.TensorProto.EXTERNAL
    entries = {"location": location, "offset": offset, "length": length}
    for key, item in entries.items():
        stored.external_data.add(key=key, value=str(item))
    result.initializer.append(stored)  # type: ignore[attr-defined]
    return model(result)


def test_reads_external_data(tmp_path: Path) -> None:
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "all.bin").write_bytes(b"1234" + X.tobytes())
    path = tmp_path / "model.onnx"
    path.write_bytes(model_with_external_data("weights/all.bin", 4))
    assert np.array_equal(run(path, X)[0], X * X)
    source_graph = read_model(path).source_graph
    assert source_graph is not None
    assert np.array_equal(run(source_graph.content, X)[0], X * X)


@pytest.mark.parametrize(
    ("location", "offset", "words"),
    [
        ("../all.bin", 0, "not in the folder"),
        ("/etc/passwd", 0, "not in the folder"),
        ("a/../../all.bin", 0, "not in the folder"),
        ("C:\\all.bin", 0, "not in the folder"),
        ("", 0, "not in the folder"),
        ("all.bin", 8, "bytes 8 to 56 are not in 'all.bin', which has 48 bytes"),
        ("all.bin", 2**62, "is '4611686018427387904', which is not a number of bytes"),
        ("all.bin", -4, "is '-4', which is not a number of bytes"),
        ("missing.bin", 0, "cannot be opened"),
    ],
)
def test_rejects_external_data_outside_the_folder(
    tmp_path: Path, location: str, offset: int, words: str
) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    for directory in (tmp_path, folder):
        (directory / "all.bin").write_bytes(X.tobytes())
    path = folder / "model.onnx"
    path.write_bytes(model_with_external_data(location, offset))
    with pytest.raises(ModelError, match=words):
        read_model(path)


def test_external_data_are_part_of_the_model_files(tmp_path: Path) -> None:
    (tmp_path / "weights").mkdir()
    path, data_file = tmp_path / "model.onnx", tmp_path / "weights" / "all.bin"
    path.write_bytes(model_with_external_data("weights/all.bin", 4))
    assert model_files(path) == (str(path),)
    data_file.write_bytes(bytes(4) + X.tobytes())
    assert model_files(path) == (str(path), str(data_file))
    path.write_bytes(model_with_external_data("../all.bin"))
    with pytest.raises(ModelError, match="not in the folder of the model"):
        model_files(path)


def test_rejects_external_data_of_in_memory_models() -> None:
    with pytest.raises(ModelError, match="pass the path of the model"):
        read_model(model_with_external_data("all.bin"))


def test_open_batch_defaults_to_one() -> None:
    result = read_model(small_model("Relu", {"x": ("N", 3)}))
    assert result.main.types["x"].shape == (1, 3)
    assert result.open_sizes == ((-1, 3),)


@pytest.mark.parametrize("sizes", [("N", 3, "H", "W"), (1, 3, None, 8), (None, "time")])
def test_other_open_sizes_need_shapes(sizes: tuple[int | str | None, ...]) -> None:
    with pytest.raises(InputError, match="has dynamic sizes there") as raised:
        read_model(small_model("Relu", {"x": sizes}))
    assert "shapes={'x': (1," in raised.value.fix


def test_sizes_with_the_same_name_are_equal() -> None:
    content = small_model("Add", {"a": ("N", "T"), "b": (3, "N", "T")})
    main = read_model(content, ReadOptions({"a": (2, 5)})).main
    assert main.types["b"].shape == (3, 2, 5)
    with pytest.raises(InputError, match="one size to 5 and to 6"):
        read_model(content, ReadOptions({"a": (2, 5), "b": (3, 2, 6)}))


def test_input_without_a_rank_needs_a_shape() -> None:
    content = small_model("Relu", {"x": (1,)})
    bare = onnx.load_from_string(content)
    bare.graph.input[0].type.tensor_type.ClearField("shape")
    content = bare.SerializeToString()
    with pytest.raises(InputError, match="does not declare its rank"):
        read_model(content)
    assert read_model(content, ReadOptions({"x": (3, 4)})).main.types["x"].shape == (3, 4)


def doubling_function(inner: str = "z") -> Any:
    nodes = [
        node("Constant", [], ["two"], value_float=2.0),
        node("Mul", ["a", "two"], [inner]),
        helper.make_node("LeakyRelu", [inner], ["b"]),
    ]
    reference = onnx.AttributeProto(name="alpha", ref_attr_name="slope")
    reference.type = onnx.AttributeProto.FLOAT
    nodes[2].attribute.append(reference)
    sets = [helper.make_opsetid("", 17)]
    return helper.make_function("own", "Double", ["a"], ["b"], nodes, sets, ["slope"])


def test_expands_functions() -> None:
    call = helper.make_node("Double", ["x"], ["z"], domain="own", slope=0.5)
    nodes = [call, node("Neg", ["z"], ["y"])]
    result = graph(nodes, [("x", "float", (3, 4))], [("y", "float", None)])
    content = model(result, functions=[doubling_function()])
    expected = -np.where(X < 0, X, 2 * X)
    assert np.allclose(run(content, X)[0], expected)


def test_rejects_recursive_functions() -> None:
    nodes = [helper.make_node("Again", ["a"], ["b"], domain="own")]
    sets = [helper.make_opsetid("own", 1)]
    again = helper.make_function("own", "Again", ["a"], ["b"], nodes, sets)
    call = helper.make_node("Again", ["x"], ["y"], domain="own")
    result = graph([call], [("x", "float", (3,))], [("y", "float", None)])
    with pytest.raises(ModelError, match="nested too deeply"):
        read_model(model(result, functions=[again]))


def branch(op: str) -> object:
    """Return a graph that reads 'x' from the outer scope."""
    return helper.make_graph([node(op, ["x"], ["r"])], op, [], [value("r", "float", None)])


@pytest.mark.parametrize("condition", [True, False])
def test_constant_condition_selects_a_branch(condition: bool) -> None:
    choose = helper.make_node(
        "If", ["c"], ["y"], then_branch=branch("Relu"), else_branch=branch("Neg")
    )
    result = graph([choose], [("x", "float", (3, 4))], [("y", "float", None)])
    result.initializer.append(  # type: ignore[attr-defined]
        numpy_helper.from_array(np.array(condition), "c")
    )
    assert np.array_equal(run(model(result), X)[0], np.maximum(X, 0) if condition else -X)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (small_model("Unheard", {"x": (3,)}), "this operator is not supported"),
        (small_model("Relu", {"x": (3,)}, opset=6), "the oldest supported one is 7"),
        (small_model("Conv", {"x": (1, 2, 5, 5), "w": (2, 2, 3, 3)}, auto_pad="X"), "padding 'X'"),
    ],
)
def test_rejects_unsupported_operators_with_a_reason(content: bytes, words: str) -> None:
    with pytest.raises((UnsupportedError, ModelError), match=words):
        read_model(content)


@pytest.mark.parametrize(
    "nodes",
    [
        [node("Relu", ["missing"], ["y"])],
        [node("Relu", ["y"], ["y"])],
        [node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"])],
        [node("Relu", ["b"], ["a"]), node("Relu", ["a"], ["b"]), node("Neg", ["b"], ["y"])],
        [node("Add", ["x"], ["y"])],
    ],
)
def test_rejects_invalid_graphs(nodes: list[object]) -> None:
    result = graph(nodes, [("x", "float", (3,))], [("y", "float", None)])
    with pytest.raises(ModelError):
        read_model(model(result))


def test_reshapes_follow_the_batch() -> None:
    nodes = [
        node("Reshape", ["x", "rows"], ["r"]),
        node("Constant", [], ["back"], value_ints=[1, 2, -1]),
        node("Reshape", ["r", "back"], ["y"]),
    ]
    constants = {"rows": np.array([1, 12])}
    created = graph(nodes, [("x", "float", (1, 3, 4))], [("y", "float", None)], constants)
    images = np.stack([X, 2 * X, 3 * X])
    (result,) = run(model(created), images, shapes={"x": (3, 3, 4)})
    assert np.array_equal(result, images.reshape(3, 2, 6))
    source = read_model(model(created), ReadOptions({"x": (3, 3, 4)})).source_graph
    assert source is not None
    part = read_model(source.write(["r"], ["x"], ["r"])).main
    assert part.types["r"].shape == (3, 12)


def test_rejects_batches_that_an_operator_mixes() -> None:
    content = small_model("ReduceSum", {"x": (1, 4)}, {"a": np.array([0])})
    assert read_model(content).main.types["y"].shape == (1, 4)
    with pytest.raises(InputError, match="each image of a batch separately"):
        read_model(content, ReadOptions({"x": (3, 4)}))


def test_empty_inputs_keep_their_shape() -> None:
    content = small_model("Identity", {"x": (2, 0)})
    main = read_model(content, ReadOptions({"x": (2, 0)})).main
    assert main.types["x"].shape == (2, 0)
    with pytest.raises(InputError, match="does not fit"):
        read_model(content, ReadOptions({"x": (0, 0)}))


def test_folded_fp16_constants_are_written_as_fp16() -> None:
    """A part for ONNX Runtime has its constants in the types of the file."""
    half = X.astype(np.float16)
    nodes = [node("Neg", ["c"], ["n"]), node("Mul", ["x", "n"], ["y"])]
    ports = [("x", "float16", (3, 4))], [("y", "float16", (3, 4))]
    source = read_model(model(graph(nodes, *ports, {"c": half}))).source_graph
    assert source is not None
    part = onnx.load_from_string(source.write(["y"], ["x"], ["y"]))
    (stored,) = part.graph.initializer
    assert stored.data_type == onnx.TensorProto.FLOAT16
    assert np.array_equal(numpy_helper.to_array(stored), -half)

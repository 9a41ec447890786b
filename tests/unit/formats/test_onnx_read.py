"""ONNX files: names, constants, sizes, functions, branches, and what is refused."""

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


def test_the_format_is_told_by_its_fields() -> None:
    content = small_model("Relu", {"x": (3, 4)})
    assert find_format(content).name == "ONNX"
    found = read_model(content)
    assert (found.format, found.cpu_engine) == ("ONNX", "onnxruntime")


def test_other_protobuf_files_are_no_models() -> None:
    with pytest.raises(ModelError, match="not an ONNX model"):
        read_model(b"\x08\x05\x12\x01a")


@pytest.mark.parametrize("content", [b"version https://git-lfs.github.com", b"<html>", b""])
def test_what_only_has_the_name_is_told_apart(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match="not a model that can be read"):
        read_model(path)


def test_names_are_those_of_the_file() -> None:
    nodes = [node("Relu", ["in/1"], ["out:0"]), node("Identity", ["in/1"], ["same"])]
    ends = [("in/1", "float", (3, 4))], [("out:0", "float", None), ("same", "float", None)]
    found = read_model(model(graph(nodes, *ends)))
    assert found.input_names == ("in/1",)
    assert found.output_names == ("out:0", "same")


def test_weights_that_are_listed_as_inputs_are_constants() -> None:
    inputs = [("x", "float", (3, 4)), ("w", "float", (4,))]
    nodes, weights = [node("Mul", ["x", "w"], ["y"])], np.arange(4, dtype=np.float32)
    content = model(graph(nodes, inputs, [("y", "float", None)], {"w": weights}))
    assert read_model(content).input_names == ("x",)
    assert np.array_equal(run(content, X)[0], X * weights)


def test_nodes_that_nothing_needs_are_not_read() -> None:
    nodes = [node("Unheard", ["x"], ["z"]), node("Relu", ["x"], ["y"])]
    assert read_model(model(graph(nodes, [("x", "float", (3,))], [("y", "float", None)])))


def tensor(name: str, kind: str, shape: tuple[int, ...], **fields: object) -> Any:
    made = onnx.TensorProto(name=name, data_type=getattr(onnx.TensorProto, kind), dims=shape)
    for field, content in fields.items():
        if field == "raw_data":
            made.raw_data = content
        else:
            getattr(made, field).extend(content)
    return made


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
def test_constants_in_every_form(name: str) -> None:
    stored, wanted = TENSORS[name]
    made = graph([node("Identity", ["c"], ["y"])], [], [("y", "float", None)])
    made.initializer.append(stored)  # type: ignore[attr-defined]
    main = read_model(model(made)).main
    (found,) = (main.constants[name] for name in main.constants)
    assert found.dtype == wanted.dtype
    assert np.array_equal(found.reshape(wanted.shape), wanted)


def test_raw_floats_are_a_view_of_the_file() -> None:
    content = small_model("Mul", {"x": (3, 4)}, {"c": X})
    main = read_model(content).main
    assert np.shares_memory(main.constants["c"], np.frombuffer(content, np.uint8))


def test_half_floats_are_wide_inside() -> None:
    half = X.astype(np.float16)
    ends = [("x", "float16", (3, 4))], [("y", "float16", (3, 4))]
    content = model(graph([node("Mul", ["x", "c"], ["y"])], *ends, {"c": half}))
    main = read_model(content).main
    assert main.types["x"].dtype is DType.F16
    (found,) = run(content, half)
    assert found.dtype == np.float16
    assert np.allclose(found, half * half, atol=1e-3)


def external(location: str, offset: int = 0, length: int = X.nbytes) -> bytes:
    made = graph([node("Mul", ["x", "c"], ["y"])], [("x", "float", (3, 4))], [("y", "float", None)])
    stored = tensor("c", "FLOAT", (3, 4))
    stored.data_location = onnx.TensorProto.EXTERNAL
    entries = {"location": location, "offset": offset, "length": length}
    for key, item in entries.items():
        stored.external_data.add(key=key, value=str(item))
    made.initializer.append(stored)  # type: ignore[attr-defined]
    return model(made)


def test_external_data_are_read_where_they_lie(tmp_path: Path) -> None:
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "all.bin").write_bytes(b"1234" + X.tobytes())
    path = tmp_path / "model.onnx"
    path.write_bytes(external("weights/all.bin", 4))
    assert np.array_equal(run(path, X)[0], X * X)
    whole = read_model(path).source_graph
    assert whole is not None
    assert np.array_equal(run(whole.content, X)[0], X * X)


@pytest.mark.parametrize(
    ("location", "offset", "words"),
    [
        ("../all.bin", 0, "not in the folder"),
        ("/etc/passwd", 0, "not in the folder"),
        ("a/../../all.bin", 0, "not in the folder"),
        ("C:\\all.bin", 0, "not in the folder"),
        ("", 0, "not in the folder"),
        ("all.bin", 8, "are not in 'all.bin'"),
        ("all.bin", -4, "are not in 'all.bin'"),
        ("missing.bin", 0, "cannot be opened"),
    ],
)
def test_external_data_elsewhere_are_refused(
    tmp_path: Path, location: str, offset: int, words: str
) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    for place in (tmp_path, folder):
        (place / "all.bin").write_bytes(X.tobytes())
    path = folder / "model.onnx"
    path.write_bytes(external(location, offset))
    with pytest.raises(ModelError, match=words):
        read_model(path)


def test_external_data_are_files_of_the_model(tmp_path: Path) -> None:
    (tmp_path / "weights").mkdir()
    path, beside = tmp_path / "model.onnx", tmp_path / "weights" / "all.bin"
    path.write_bytes(external("weights/all.bin", 4))
    assert model_files(path) == (str(path),)
    beside.write_bytes(bytes(4) + X.tobytes())
    assert model_files(path) == (str(path), str(beside))
    path.write_bytes(external("../all.bin"))
    with pytest.raises(ModelError, match="not in the folder of the model"):
        model_files(path)


def test_external_data_of_bytes_are_refused() -> None:
    with pytest.raises(ModelError, match="pass the path of the model"):
        read_model(external("all.bin"))


def test_a_batch_that_is_left_open_is_one() -> None:
    found = read_model(small_model("Relu", {"x": ("N", 3)}))
    assert found.main.types["x"].shape == (1, 3)
    assert found.open_sizes == ((-1, 3),)


@pytest.mark.parametrize("sizes", [("N", 3, "H", "W"), (1, 3, None, 8), (None, "time")])
def test_other_open_sizes_are_asked_for(sizes: tuple[int | str | None, ...]) -> None:
    with pytest.raises(InputError, match="has dynamic sizes there") as raised:
        read_model(small_model("Relu", {"x": sizes}))
    assert "shapes={'x': (1," in raised.value.fix


def test_sizes_of_one_name_are_equal() -> None:
    content = small_model("Add", {"a": ("N", "T"), "b": (3, "N", "T")})
    main = read_model(content, ReadOptions({"a": (2, 5)})).main
    assert main.types["b"].shape == (3, 2, 5)
    with pytest.raises(InputError, match="one size to 5 and to 6"):
        read_model(content, ReadOptions({"a": (2, 5), "b": (3, 2, 6)}))


def test_an_input_without_a_rank_needs_a_shape() -> None:
    content = small_model("Relu", {"x": (1,)})
    bare = onnx.load_from_string(content)
    bare.graph.input[0].type.tensor_type.ClearField("shape")
    content = bare.SerializeToString()
    with pytest.raises(InputError, match="does not declare its rank"):
        read_model(content)
    assert read_model(content, ReadOptions({"x": (3, 4)})).main.types["x"].shape == (3, 4)


def double(inner: str = "z") -> Any:
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


def test_functions_are_expanded() -> None:
    call = helper.make_node("Double", ["x"], ["z"], domain="own", slope=0.5)
    nodes = [call, node("Neg", ["z"], ["y"])]
    made = graph(nodes, [("x", "float", (3, 4))], [("y", "float", None)])
    content = model(made, functions=[double()])
    wanted = -np.where(X < 0, X, 2 * X)
    assert np.allclose(run(content, X)[0], wanted)


def test_a_function_that_calls_itself_ends() -> None:
    nodes = [helper.make_node("Again", ["a"], ["b"], domain="own")]
    sets = [helper.make_opsetid("own", 1)]
    again = helper.make_function("own", "Again", ["a"], ["b"], nodes, sets)
    call = helper.make_node("Again", ["x"], ["y"], domain="own")
    made = graph([call], [("x", "float", (3,))], [("y", "float", None)])
    with pytest.raises(ModelError, match="nested too deeply"):
        read_model(model(made, functions=[again]))


def branch(op: str) -> object:
    """A graph that reads 'x' from outside."""
    return helper.make_graph([node(op, ["x"], ["r"])], op, [], [value("r", "float", None)])


@pytest.mark.parametrize("condition", [True, False])
def test_a_branch_whose_condition_is_known_is_taken(condition: bool) -> None:
    choose = helper.make_node(
        "If", ["c"], ["y"], then_branch=branch("Relu"), else_branch=branch("Neg")
    )
    made = graph([choose], [("x", "float", (3, 4))], [("y", "float", None)])
    made.initializer.append(  # type: ignore[attr-defined]
        numpy_helper.from_array(np.array(condition), "c")
    )
    assert np.array_equal(run(model(made), X)[0], np.maximum(X, 0) if condition else -X)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (small_model("Unheard", {"x": (3,)}), "this operator is not supported"),
        (small_model("Relu", {"x": (3,)}, opset=6), "the oldest supported one is 7"),
        (small_model("Conv", {"x": (1, 2, 5, 5), "w": (2, 2, 3, 3)}, auto_pad="X"), "padding 'X'"),
    ],
)
def test_refusals_have_reasons(content: bytes, words: str) -> None:
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
def test_impossible_graphs(nodes: list[object]) -> None:
    made = graph(nodes, [("x", "float", (3,))], [("y", "float", None)])
    with pytest.raises(ModelError):
        read_model(model(made))


def test_a_batch_goes_through_reshapes_that_have_another() -> None:
    nodes = [
        node("Reshape", ["x", "rows"], ["r"]),
        node("Constant", [], ["back"], value_ints=[1, 2, -1]),
        node("Reshape", ["r", "back"], ["y"]),
    ]
    constants = {"rows": np.array([1, 12])}
    made = graph(nodes, [("x", "float", (1, 3, 4))], [("y", "float", None)], constants)
    images = np.stack([X, 2 * X, 3 * X])
    (found,) = run(model(made), images, shapes={"x": (3, 3, 4)})
    assert np.array_equal(found, images.reshape(3, 2, 6))
    source = read_model(model(made), ReadOptions({"x": (3, 3, 4)})).source_graph
    assert source is not None
    part = read_model(source.write(["r"], ["x"], ["r"])).main
    assert part.types["r"].shape == (3, 12)


def test_what_mixes_images_of_a_batch_is_named() -> None:
    content = small_model("ReduceSum", {"x": (1, 4)}, {"a": np.array([0])})
    assert read_model(content).main.types["y"].shape == (1, 4)
    with pytest.raises(InputError, match="each image of a batch separately"):
        read_model(content, ReadOptions({"x": (3, 4)}))


def test_an_empty_input_keeps_its_shape() -> None:
    content = small_model("Identity", {"x": (2, 0)})
    main = read_model(content, ReadOptions({"x": (2, 0)})).main
    assert main.types["x"].shape == (2, 0)
    with pytest.raises(InputError, match="does not fit"):
        read_model(content, ReadOptions({"x": (0, 0)}))


def test_folded_halves_are_written_as_halves() -> None:
    """A part for ONNX Runtime has its constants in the types of the file."""
    half = X.astype(np.float16)
    nodes = [node("Neg", ["c"], ["n"]), node("Mul", ["x", "n"], ["y"])]
    ends = [("x", "float16", (3, 4))], [("y", "float16", (3, 4))]
    source = read_model(model(graph(nodes, *ends, {"c": half}))).source_graph
    assert source is not None
    part = onnx.load_from_string(source.write(["y"], ["x"], ["y"]))
    (stored,) = part.graph.initializer
    assert stored.data_type == onnx.TensorProto.FLOAT16
    assert np.array_equal(numpy_helper.to_array(stored), -half)

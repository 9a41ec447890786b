"""Graphs written as TFLite files: names, signatures, fused activations, states, refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from random_graphs import build
from runtimes import interpreter, run

from fourfold.backends.cpu.reference import NumpyPart, evaluate
from fourfold.errors import UnsupportedError
from fourfold.formats import formats, read_model
from fourfold.formats.tflite.reader import read_file
from fourfold.formats.tflite.records import FileRecord
from fourfold.formats.tflite.write_graph import file_of
from fourfold.formats.tflite.write_graph.serialize import serialize
from fourfold.formats.writable import StoredAs, WritableModel
from fourfold.graph import Graph, Node
from fourfold.types import DType, TensorType

pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

NETWORK = """
    input image: f32[1,9,9,3]
    const filters: f32[8,3,3,3]
    const offsets: f32[8]
    layer = conv2d(image, filters, offsets; stride=(2,2), padding=Padding(0,1,0,1))
    active = relu6(layer)
    pooled = mean(active; axes=(1,2), keep_dims=False)
    const weights: f32[5,8]
    logits = fully_connected(pooled, weights, -)
    scores = softmax(logits)
    output scores logits
"""


def write_graph(graph: Graph, **changes: object) -> bytes:
    model = WritableModel(graph, graph.arguments, graph.results)
    return formats()["tflite"].write(replace(model, **changes))  # type: ignore[arg-type]


def record_of(content: bytes) -> FileRecord:
    return read_file(content, "the file")


def operators(content: bytes) -> list[str]:
    return [operator.op for operator in record_of(content).subgraphs[0].operators]


def image(shape: tuple[int, ...] = (1, 9, 9, 3)) -> np.ndarray:
    return np.random.default_rng(3).uniform(-1, 1, shape).astype(np.float32)


def test_writes_the_operators_of_a_converter() -> None:
    result = operators(write_graph(build(NETWORK)))
    assert result == ["PAD", "CONV_2D", "MEAN", "FULLY_CONNECTED", "SOFTMAX"]


def test_graph_and_signature_have_the_requested_names() -> None:
    content = write_graph(build(NETWORK), input_names=("picture",), output_names=("best", "all"))
    (signature,) = record_of(content).signatures
    assert signature.key == "serving_default"
    runner = interpreter("ai_edge_litert", content).get_signature_runner("serving_default")
    result = runner(picture=image())
    expected = evaluate(build(NETWORK), {"image": image()})
    np.testing.assert_allclose(result["best"], expected["scores"], rtol=1e-5)
    np.testing.assert_allclose(result["all"], expected["logits"], rtol=1e-5)
    model = read_model(content)
    assert (model.input_names, model.output_names) == (("picture",), ("best", "all"))


def test_writing_is_deterministic() -> None:
    assert write_graph(build(NETWORK)) == write_graph(build(NETWORK))


def test_activation_with_other_readers_is_not_fused() -> None:
    text = "input x: f32[2,3]\ninput y: f32[3]\nsum = add(x, y)\nz = relu(sum)\noutput z sum"
    assert operators(write_graph(build(text))) == ["ADD", "RELU"]


def test_uncomputed_outputs_are_copies() -> None:
    graph = build("input x: f32[2,3]\nconst c: f32[3]\ny = relu(x)\noutput y x c")
    content = write_graph(graph, output_names=("y", "same", "known"))
    result = run(interpreter("ai_edge_litert", content), [image((2, 3))])
    np.testing.assert_array_equal(result[1], image((2, 3)))
    np.testing.assert_array_equal(result[2], graph.constants["c"])


def test_sizes_can_stay_open() -> None:
    text = "input x: f32[1,3,5]\ny = reshape(x; shape=(1,15))\nz = relu(y)\noutput z"
    content = write_graph(build(text), open_sizes=((-1, 3, 5),))
    assert read_model(content).open_sizes == ((-1, 3, 5),)
    x = image((7, 3, 5))
    (result,) = run(interpreter("ai_edge_litert", content), [x])
    np.testing.assert_array_equal(result, np.maximum(x, 0).reshape(7, 15))


def test_large_weights_are_stored_behind_the_tables() -> None:
    graph = build(NETWORK)
    file = file_of(WritableModel(graph, graph.arguments, graph.results))
    content, inside = serialize(file, max_inside=100), serialize(file)
    assert content != inside
    for one, other in zip(record_of(content).buffers, record_of(inside).buffers, strict=True):
        np.testing.assert_array_equal(one, other)
    result, expected = (
        run(interpreter("ai_edge_litert", one), [image()]) for one in (content, inside)
    )
    np.testing.assert_array_equal(result[0], expected[0])


def test_error_lists_every_unwritable_op() -> None:
    graph = build(
        """
        input x: i32[3,5]
        input y: i32[5]
        a = bitwise_and(x, y)
        b = add(a, y)
        c = bitwise_or(b, y)
        output c
        """
    )
    with pytest.raises(UnsupportedError) as raised:
        write_graph(graph)
    assert [refusal.op for refusal in raised.value.refusals] == ["bitwise_and", "bitwise_or"]
    assert raised.value.refusals[0].node == "a"


def test_states_persist_between_runs() -> None:
    shape = TensorType(DType.F32, (2, 3))
    graph = Graph(
        (Node("add", ("x", "sum"), ("y",)), Node("identity", ("y",), ("next",))),
        ("x", "sum"),
        ("y", "next"),
        {"x": shape, "sum": shape, "y": shape, "next": shape},
        states={"sum": "next"},
        starts={"sum": np.full((2, 3), 5, np.float32)},
    )
    content = write_graph(graph)
    litert = interpreter("ai_edge_litert", content)
    litert.allocate_tensors()
    ours, again = NumpyPart(graph), NumpyPart(read_model(content).main)
    for number in range(3):
        x = np.full((2, 3), number + 1, np.float32)
        litert.set_tensor(litert.get_input_details()[0]["index"], x)
        litert.invoke()
        (expected,) = ours.run([x])
        result = litert.get_tensor(litert.get_output_details()[0]["index"])
        np.testing.assert_array_equal(result, expected)
        np.testing.assert_array_equal(again.run([x])[0], expected)


def test_fp16_constants_are_dequantized_in_the_file() -> None:
    graph = build(NETWORK)
    stored = {name: StoredAs(DType.F16) for name in graph.constants}
    content = write_graph(graph, stored=stored)
    assert operators(content).count("DEQUANTIZE") == len(graph.constants)
    assert len(content) < len(write_graph(graph))
    (result, _) = run(interpreter("ai_edge_litert", content), [image()])
    expected = evaluate(graph, {"image": image()})["scores"]
    np.testing.assert_allclose(result, expected, atol=1e-3)


def test_fp16_weights_stay_fp16() -> None:
    text = "input x: f32[2,31]\nconst w: f32[37,31]\ny = fully_connected(x, w, -)\noutput y"
    graph = build(text)
    halves = {"w": graph.constants["w"].astype(np.float16).astype(np.float32)}
    content = write_graph(replace(graph, constants=halves))
    assert operators(content) == ["DEQUANTIZE", "FULLY_CONNECTED"]
    assert operators(write_graph(graph)) == ["FULLY_CONNECTED"]
    (result,) = run(interpreter("ai_edge_litert", content), [image((2, 31))])
    np.testing.assert_allclose(result, image((2, 31)) @ halves["w"].T, rtol=1e-4, atol=1e-5)


def test_rejects_fp16_activations() -> None:
    with pytest.raises(UnsupportedError, match="would be float16"):
        write_graph(build(NETWORK), stored={"active": StoredAs(DType.F16)})


def test_versions_are_no_newer_than_needed() -> None:
    (graph,) = record_of(write_graph(build(NETWORK))).subgraphs
    assert {operator.version for operator in graph.operators} == {1}


@pytest.mark.parametrize("dtype", ["i8", "u8", "i16"])
@pytest.mark.parametrize("op", ["add", "mul", "div", "less", "squared_difference"])
def test_narrow_integers_are_not_written_as_quantized(op: str, dtype: str) -> None:
    graph = build(f"input x: {dtype}[3,5]\ninput y: {dtype}[5]\nz = {op}(x, y)\noutput z")
    generator = np.random.default_rng(3)
    arrays = [generator.integers(1, 9, shape).astype(DType(dtype).numpy) for shape in ((3, 5), 5)]
    (result,) = run(interpreter("ai_edge_litert", write_graph(graph)), arrays)
    np.testing.assert_array_equal(result, evaluate(graph, {"x": arrays[0], "y": arrays[1]})["z"])


def test_rejects_types_without_a_litert_kernel() -> None:
    graph = build("input x: i64[3,5]\ny = absolute(x)\noutput y")
    with pytest.raises(UnsupportedError, match="LiteRT has no ABS for i64"):
        write_graph(graph)


def test_inner_values_leave_the_names_of_outputs_free() -> None:
    graph = build("input x: f32[2,3]\ny = relu(x)\nz = square(y)\noutput z")
    content = write_graph(graph, output_names=("y",))
    assert operators(content) == ["RELU", "SQUARE"]
    (detail,) = interpreter("ai_edge_litert", content).get_output_details()
    assert detail["name"] == "y"


DETECTOR = """
    input boxes: f32[1,29,4]
    input scores: f32[1,29,4]
    const anchors: f32[29,4] = 0.5
    table = detection(boxes, scores, anchors; most=5, classes=3, score=0.3, overlap=0.5, SCALES)
    corners = slice(table; begin=(0,0), size=(5,4), strides=(1,1))
    kinds = slice(table; begin=(0,4), size=(5,1), strides=(1,1))
    best = slice(table; begin=(0,5), size=(5,1), strides=(1,1))
    exists = slice(table; begin=(0,6), size=(5,1), strides=(1,1))
    a = reshape(corners; shape=(1,5,4))
    b = reshape(kinds; shape=(1,5))
    c = reshape(best; shape=(1,5))
    d = sum(exists; axes=(0,), keep_dims=False)
    output a b c d
""".replace("SCALES", "scales=(10.0,10.0,5.0,5.0)")


def test_detector_ends_in_the_postprocess_operator() -> None:
    graph = build(DETECTOR)
    content = write_graph(graph)
    (operator,) = record_of(content).subgraphs[0].operators
    assert operator.custom_code == "TFLite_Detection_PostProcess"
    generator = np.random.default_rng(3)
    arrays = [generator.uniform(0, 1, (1, 29, 4)).astype(np.float32) for _ in range(2)]
    result = run(interpreter("ai_edge_litert", content), arrays)
    expected = evaluate(graph, dict(zip(graph.arguments, arrays, strict=True)))
    (count,) = expected["d"].astype(int)
    assert 0 < count == result[3][0]
    for ours, name in zip(result[:3], "abc", strict=True):
        # LiteRT does not write rows without a box.
        np.testing.assert_allclose(ours[:, :count], expected[name][:, :count], rtol=1e-5)


def test_detector_table_with_other_readers_is_written() -> None:
    graph = build(DETECTOR + "    t = relu(table)\n    output t")
    assert operators(write_graph(graph))[0] == "CUSTOM"
    assert "SELECT_V2" in operators(write_graph(graph))

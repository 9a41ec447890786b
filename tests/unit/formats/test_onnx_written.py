"""Written ONNX files: names, axis order, and quantized values."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from fourfold.backends.cpu.reference import evaluate
from fourfold.errors import UnsupportedError
from fourfold.formats import formats, read_model
from fourfold.formats.writable import StoredAs, WritableModel
from fourfold.graph import Graph, Node
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.reshape import Reshape
from fourfold.ops.transpose import Transpose
from fourfold.types import DType, Quantization, TensorType

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

RANDOM = np.random.default_rng(5)
IMAGE = TensorType.parse("f32[1,5,7,3]")
WEIGHTS = RANDOM.uniform(-1, 1, (4, 3, 3, 3)).astype(np.float32)
SMALL = TensorType.parse("f32[1,3,5,4]")


def convolution(image: str = "x", result: str = "y") -> Graph:
    """Return a graph of y = relu(conv2d(x, w))."""
    nodes = (
        Node("conv2d", (image, "w"), ("sum",), Conv2d(), name="first"),
        Node("relu", ("sum",), (result,)),
    )
    types = {image: IMAGE, "w": TensorType.of(WEIGHTS), "sum": SMALL, result: SMALL}
    return Graph(nodes, (image,), (result,), types, {"w": WEIGHTS})


def write(graph: Graph, **stored: StoredAs) -> bytes:
    return formats()["onnx"].write(WritableModel(graph, graph.arguments, graph.results, stored))


def operators(content: bytes) -> Counter[str]:
    return Counter(node.op_type for node in onnx.load_from_string(content).graph.node)


def run(content: bytes, *arrays: np.ndarray) -> list[np.ndarray]:
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]
    outputs: list[np.ndarray] = session.run(None, dict(zip(names, arrays, strict=True)))
    return outputs


def test_onnx_checker_accepts_written_files() -> None:
    onnx.checker.check_model(onnx.load_from_string(write(convolution())), full_check=True)


def test_batch_size_can_stay_open() -> None:
    graph = convolution()
    flat = Node("reshape", ("y",), ("flat",), Reshape((1, 60)))
    types = {**graph.types, "flat": TensorType.parse("f32[1,60]")}
    graph = replace(graph, nodes=(*graph.nodes, flat), outputs=("flat", "y"), types=types)
    sizes = ((-1, *IMAGE.shape[1:]),)
    model = WritableModel(graph, graph.arguments, graph.results, open_sizes=sizes)
    content = formats()["onnx"].write(model)
    onnx.checker.check_model(onnx.load_from_string(content), full_check=True)
    assert read_model(content).open_sizes == sizes
    images = RANDOM.uniform(-1, 1, (3, *IMAGE.shape[1:])).astype(np.float32)
    rows, pixels = run(content, images)
    expected = [evaluate(graph, {"x": image[None]}) for image in images]
    assert np.allclose(rows, np.concatenate([one["flat"] for one in expected]), atol=1e-5)
    assert np.allclose(pixels, np.concatenate([one["y"] for one in expected]), atol=1e-5)


def test_other_sizes_can_stay_open() -> None:
    graph = convolution()
    model = WritableModel(graph, graph.arguments, graph.results, open_sizes=((1, -1, -1, 3),))
    content = formats()["onnx"].write(model)
    (result,) = run(content, RANDOM.uniform(-1, 1, (1, 9, 4, 3)).astype(np.float32))
    assert result.shape == (1, 7, 2, 4)


def test_writing_is_deterministic() -> None:
    assert write(convolution()) == write(convolution())


def test_inputs_and_outputs_have_the_requested_names() -> None:
    graph = convolution()
    content = formats()["onnx"].write(WritableModel(graph, ("sum",), ("w",), description="what"))
    read = read_model(content)
    assert (read.input_names, read.output_names) == (("sum",), ("w",))
    assert onnx.load_from_string(content).doc_string == "what"


def test_input_that_is_an_output_is_copied() -> None:
    type_ = TensorType.parse("f32[2,3]")
    nodes = (Node("identity", ("x",), ("y",)),)
    graph = Graph(nodes, ("x",), ("x", "y"), {"x": type_, "y": type_})
    content = formats()["onnx"].write(WritableModel(graph, ("x",), ("same", "copy")))
    array = RANDOM.uniform(-1, 1, (2, 3)).astype(np.float32)
    assert all(np.array_equal(result, array) for result in run(content, array))


def test_images_are_transposed_at_inputs_and_outputs_only() -> None:
    assert operators(write(convolution())) == {"Transpose": 2, "Conv": 1, "Relu": 1}


def test_inverse_transposes_cancel() -> None:
    inner = convolution("x", "y")
    first, last = (0, 2, 3, 1), (0, 3, 1, 2)
    nodes = (
        Node("transpose", ("planes",), ("x",), Transpose(first)),
        *inner.nodes,
        Node("transpose", ("y",), ("result",), Transpose(last)),
    )
    types = {
        **inner.types,
        "planes": TensorType.parse("f32[1,3,5,7]"),
        "result": TensorType.parse("f32[1,4,3,5]"),
    }
    graph = Graph(nodes, ("planes",), ("result",), types, inner.constants)
    assert operators(write(graph)) == {"Conv": 1, "Relu": 1}


def test_reshape_works_on_the_stored_axis_order() -> None:
    """Channels that stay last are split before they are moved there."""
    inner = convolution()
    after = TensorType.parse("f32[1,3,5,2,2]")
    nodes = (*inner.nodes, Node("reshape", ("y",), ("z",), Reshape(after.shape)))
    graph = replace(inner, nodes=nodes, outputs=("z",), types={**inner.types, "z": after})
    content = write(graph)
    array = RANDOM.uniform(-1, 1, IMAGE.shape).astype(np.float32)
    (plain,), (result,) = run(write(inner), array), run(content, array)
    assert operators(content)["Transpose"] == 2
    assert np.array_equal(result, plain.reshape(after.shape))


@pytest.mark.parametrize("stored", [False, True], ids=["floats", "integers"])
def test_weights_are_permuted_for_flattened_images(stored: bool) -> None:
    inner = convolution()
    weights = RANDOM.uniform(-1, 1, (2, 60)).astype(np.float32)
    types = {"flat": "f32[1,60]", "z": "f32[1,2]", "weights": "f32[2,60]"}
    nodes = (
        *inner.nodes,
        Node("reshape", ("y",), ("flat",), Reshape((1, 60))),
        Node("fully_connected", ("flat", "weights"), ("z",)),
    )
    graph = replace(
        inner,
        nodes=nodes,
        outputs=("z",),
        types={**inner.types, **{name: TensorType.parse(text) for name, text in types.items()}},
        constants={**inner.constants, "weights": weights},
    )
    scales = tuple(np.abs(weights).max(1) / 127)
    grids = {"weights": StoredAs(DType.I8, Quantization(scales, (0, 0), 0))} if stored else {}
    content = write(graph, **grids)
    array = RANDOM.uniform(-1, 1, IMAGE.shape).astype(np.float32)
    (result,) = run(content, array)
    expected = evaluate(graph, {"x": array})["z"]
    assert operators(content)["Transpose"] == 1  # of the input
    assert np.abs(result - expected).max() <= (0.05 if stored else 1e-4) * np.abs(expected).max()


def test_error_lists_every_unwritable_op() -> None:
    type_ = TensorType.parse("f32[2,3]")
    nodes = (
        Node("detection", ("x",), ("a",), name="one"),
        Node("relu", ("a",), ("b",), name="fine"),
        Node("spectrum", ("b",), ("y",), name="two"),
    )
    graph = Graph(nodes, ("x",), ("y",), dict.fromkeys(("x", "a", "b", "y"), type_))
    with pytest.raises(UnsupportedError) as raised:
        write(graph)
    assert [refusal.node for refusal in raised.value.refusals] == ["one", "two"]


def test_rejects_states() -> None:
    type_ = TensorType.parse("f32[2]")
    nodes = (Node("add", ("x", "before"), ("after",)),)
    graph = Graph(
        nodes,
        ("x", "before"),
        ("after",),
        dict.fromkeys(("x", "before", "after"), type_),
        states={"before": "after"},
    )
    with pytest.raises(UnsupportedError, match="persist between runs"):
        write(graph)


PER_CHANNEL = Quantization(tuple(np.abs(WEIGHTS).max((1, 2, 3)) / 127), (0,) * 4, axis=0)
WHOLE = Quantization((0.05,), (3,))


def stored_weights(stored: StoredAs) -> tuple[bytes, float]:
    """Write the model, and return it with the deviation of its results from fp32."""
    array = RANDOM.uniform(-1, 1, IMAGE.shape).astype(np.float32)
    content = write(convolution(), w=stored)
    (result,), (plain,) = run(content, array), run(write(convolution()), array)
    graph = read_model(content).main
    (ours,) = evaluate(graph, {graph.arguments[0]: array}).values()
    assert np.allclose(result, ours, atol=1e-4)
    return content, float(np.abs(result - plain).max())


@pytest.mark.parametrize(
    ("stored", "element", "limit"),
    [
        (StoredAs(DType.I8, PER_CHANNEL), 3, 0.2),
        (StoredAs(DType.F16), 10, 0.01),
        (StoredAs(DType.I16, Quantization((1 / 32767,), (0,))), 5, 0.01),
        (
            StoredAs(
                DType.I4, Quantization(tuple(s * 127 / 7 for s in PER_CHANNEL.scale), (0,) * 4, 0)
            ),
            22,
            2,
        ),
    ],
    ids=["i8", "f16", "i16", "i4"],
)
def test_writes_quantized_weights(stored: StoredAs, element: int, limit: float) -> None:
    content, error = stored_weights(stored)
    assert 0 < error < limit
    tensors = {one.name: one.data_type for one in onnx.load_from_string(content).graph.initializer}
    assert tensors[f"w/{stored.dtype.value}"] == element


def test_scales_follow_transposed_weights() -> None:
    content, _ = stored_weights(StoredAs(DType.I8, PER_CHANNEL))
    nodes = onnx.load_from_string(content).graph.node
    (widened,) = [node for node in nodes if node.op_type == "DequantizeLinear"]
    assert onnx.helper.get_node_attr_value(widened, "axis") == 0


def test_activations_are_quantized() -> None:
    content = write(convolution(), sum=StoredAs(DType.I8, WHOLE))
    array = RANDOM.uniform(-1, 1, IMAGE.shape).astype(np.float32)
    (result,) = run(content, array)
    steps = result / WHOLE.scale[0]
    assert operators(content)["QuantizeLinear"] == 1
    assert np.allclose(steps, np.rint(steps), atol=1e-3)
    assert len(np.unique(steps.round())) > 4


def test_quantized_inputs_and_outputs_are_integers() -> None:
    stored = {"x": StoredAs(DType.I8, WHOLE), "y": StoredAs(DType.U8, WHOLE)}
    content = write(convolution(), **stored)
    array = RANDOM.integers(-60, 60, IMAGE.shape).astype(np.int8)
    (result,) = run(content, array)
    real = ((array.astype(np.float32) - 3) * np.float32(0.05)).astype(np.float32)
    (plain,) = run(write(convolution()), real)
    expected = np.clip(np.rint(plain / 0.05) + 3, 0, 255)
    assert result.dtype == np.uint8
    assert np.abs(result - expected).max() <= 1


def test_rejects_integer_types_that_onnx_cannot_quantize_to() -> None:
    with pytest.raises(UnsupportedError, match="cannot quantize values to i32"):
        write(convolution(), sum=StoredAs(DType.I32, WHOLE))


@pytest.mark.parametrize("bias", [None, StoredAs(DType.I64, Quantization((1e-6,), (0,)))])
def test_float_layers_between_quantized_values_stay_float(bias: StoredAs | None) -> None:
    """ONNX Runtime would quantize them, and the layer stayed float because that costs accuracy."""
    inner = convolution()
    numbers = np.array([3, -2, 1, 0.5], np.float32)
    weights = WEIGHTS.copy()
    weights[:, 0, 0, 0] = 100  # makes all other weights negligible in int8
    graph = replace(
        inner,
        nodes=(replace(inner.nodes[0], inputs=("x", "w", "b")), inner.nodes[1]),
        types={**inner.types, "b": TensorType.of(numbers)},
        constants={"w": weights, "b": numbers},
    )
    stored = {"x": StoredAs(DType.I8, Quantization((1 / 127,), (0,)))}
    stored["y"] = StoredAs(DType.I16, Quantization((0.01,), (0,)))
    if bias is not None:
        stored["b"] = bias
    array = RANDOM.integers(-127, 127, IMAGE.shape).astype(np.int8)
    (result,) = run(write(graph, **stored), array)
    real = array.astype(np.float32) * np.float32(1 / 127)
    expected = np.rint(evaluate(graph, {"x": real})["y"] / 0.01)
    assert np.abs(result - expected).max() <= 1


def test_weights_of_float_layers_stay_float() -> None:
    content = write(convolution())
    assert operators(content)["DequantizeLinear"] == 0

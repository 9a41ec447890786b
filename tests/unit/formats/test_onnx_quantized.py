"""Quantized ONNX models in both forms that exporters write: QDQ pairs and integer operators."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from onnx_writer import graph, model, node

import fourfold
from fourfold.device import DeviceInfo
from fourfold.formats import read_model

onnxruntime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

RNG = np.random.default_rng(3)
X = RNG.uniform(-1, 1, (1, 3, 9, 11)).astype(np.float32)
W = RNG.integers(-127, 128, (5, 3, 3, 3)).astype(np.int8)
SCALES = RNG.uniform(0.001, 0.01, 5).astype(np.float32)
BIAS = RNG.integers(-900, 900, 5).astype(np.int32)
STEP, POINT = np.float32(0.0078), np.uint8(128)
OUT, LOW = np.float32(0.02), np.uint8(30)
CONSTANTS = {
    "w": W,
    "ws": SCALES,
    "wz": np.zeros(5, np.int8),
    "b": BIAS,
    "bs": SCALES * STEP,
    "s": STEP.reshape(()),
    "z": POINT.reshape(()),
    "os": OUT.reshape(()),
    "oz": LOW.reshape(()),
}
WINDOW = {"pads": [1, 1, 1, 1], "strides": [2, 1]}


def qdq_model(scales_axis: int = 0) -> bytes:
    """Return a model with QuantizeLinear and DequantizeLinear around each value."""
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["r"]),
        node("DequantizeLinear", ["w", "ws", "wz"], ["wr"], axis=scales_axis),
        node("DequantizeLinear", ["b", "bs"], ["br"], axis=0),
        node("Conv", ["r", "wr", "br"], ["c"], **WINDOW),
        node("Relu", ["c"], ["a"]),
        node("QuantizeLinear", ["a", "os", "oz"], ["p"]),
        node("DequantizeLinear", ["p", "os", "oz"], ["y"]),
    ]
    return finish_model(nodes)


def integer_model() -> bytes:
    """Return a model with operators that read and write integers."""
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("QLinearConv", ["q", "s", "z", "w", "ws", "wz", "os", "oz", "b"], ["p"], **WINDOW),
        node("DequantizeLinear", ["p", "os", "oz"], ["y"]),
    ]
    return finish_model(nodes)


def finish_model(nodes: Sequence[object]) -> bytes:
    return model(graph(nodes, [("x", "float", X.shape)], [("y", "float", None)], CONSTANTS))


def run_onnx_runtime(content: bytes) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    output: np.ndarray = session.run(None, {"x": X})[0]
    return output


@pytest.mark.parametrize("content", [qdq_model(), integer_model()], ids=["pairs", "integers"])
def test_results_match_onnx_runtime_within_one_step(device: DeviceInfo, content: bytes) -> None:
    expected = run_onnx_runtime(content)
    with fourfold.Session(content, device, cache=None, strict=True) as session:
        output = session.run(X)["y"]
    steps = np.abs(output - expected) / OUT
    assert steps.max() < 1.01  # ties may round either way
    assert (steps < 0.01).mean() > 0.99


def test_weights_keep_their_quantization() -> None:
    """Integer accumulation needs scales along the current channel axis."""
    main = read_model(qdq_model()).main
    (conv,) = (one for one in main.nodes if one.op == "conv2d")
    stored = main.quantization[str(conv.inputs[1])]
    assert stored.axis == 0
    assert np.allclose(stored.scale, SCALES)
    array = main.constants[str(conv.inputs[1])]
    assert np.allclose(array / SCALES.reshape(-1, 1, 1, 1), W.transpose(0, 2, 3, 1), atol=1e-3)


def test_dequantized_values_are_not_stored_as_integers() -> None:
    main = read_model(qdq_model()).main
    read = {name for one in main.nodes for name in one.reads}
    integers = [one.outputs[0] for one in main.nodes if one.op == "quantize"]
    assert integers
    assert not read.intersection(integers)


def test_quantized_false_runs_on_the_cpu(device: DeviceInfo) -> None:
    with fourfold.Session(integer_model(), device, cache=None, quantized=False) as session:
        assert "quantized=False" in str(session.placement)
        assert np.allclose(session.run(X)["y"], run_onnx_runtime(integer_model()), atol=1.01 * OUT)


def test_rejects_scales_that_match_no_axis() -> None:
    with pytest.raises(fourfold.FourfoldError, match="scales do not fit"):
        read_model(qdq_model(scales_axis=1))

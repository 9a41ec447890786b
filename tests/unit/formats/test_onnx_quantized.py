"""Quantised ONNX models: integers seen as real numbers, in both forms that exporters write."""

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


def with_pairs(scales_axis: int = 0) -> bytes:
    """QuantizeLinear and DequantizeLinear around each value."""
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
    return finished(nodes)


def with_integers() -> bytes:
    """Operators that read and write integers."""
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("QLinearConv", ["q", "s", "z", "w", "ws", "wz", "os", "oz", "b"], ["p"], **WINDOW),
        node("DequantizeLinear", ["p", "os", "oz"], ["y"]),
    ]
    return finished(nodes)


def finished(nodes: Sequence[object]) -> bytes:
    return model(graph(nodes, [("x", "float", X.shape)], [("y", "float", None)], CONSTANTS))


def by_onnx_runtime(content: bytes) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    found: np.ndarray = session.run(None, {"x": X})[0]
    return found


@pytest.mark.parametrize("content", [with_pairs(), with_integers()], ids=["pairs", "integers"])
def test_results_are_the_same_integers(device: DeviceInfo, content: bytes) -> None:
    wanted = by_onnx_runtime(content)
    with fourfold.Session(content, device, cache=None, strict=True) as session:
        found = session.run(X)["y"]
    steps = np.abs(found - wanted) / OUT
    assert steps.max() < 1.01  # a tie may go either way
    assert (steps < 0.01).mean() > 0.99


def test_weights_keep_what_they_were_stored_as() -> None:
    """Sums can be those of integers: scales lie along the axis that the channels have by now."""
    main = read_model(with_pairs()).main
    (conv,) = (one for one in main.nodes if one.op == "conv2d")
    stored = main.quantization[str(conv.inputs[1])]
    assert stored.axis == 0
    assert np.allclose(stored.scale, SCALES)
    array = main.constants[str(conv.inputs[1])]
    assert np.allclose(array / SCALES.reshape(-1, 1, 1, 1), W.transpose(0, 2, 3, 1), atol=1e-3)


def test_what_is_dequantised_again_is_not_stored() -> None:
    main = read_model(with_pairs()).main
    read = {name for one in main.nodes for name in one.reads}
    integers = [one.outputs[0] for one in main.nodes if one.op == "quantize"]
    assert integers
    assert not read.intersection(integers)


def test_they_can_be_left_to_the_cpu(device: DeviceInfo) -> None:
    with fourfold.Session(with_integers(), device, cache=None, quantized=False) as session:
        assert "quantized=False" in str(session.placement)
        assert np.allclose(session.run(X)["y"], by_onnx_runtime(with_integers()), atol=1.01 * OUT)


def test_scales_that_fit_no_axis() -> None:
    with pytest.raises(fourfold.FourfoldError, match="scales do not fit"):
        read_model(with_pairs(scales_axis=1))

"""Integer weights beside float values: old files type signed bytes as uint8, and LiteRT knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
import runtimes
from tflite_writer import Operator, Tensor, constant, write

from fourfold.backends.cpu.reference import evaluate
from fourfold.formats import read_model

STRIDES = {"StrideH": 1, "StrideW": 1, "Padding": 0}
SCALE = 0.01
ROUNDED = 0.02  # of the range: LiteRT rounds the values to bytes before it multiplies them

Weights = Callable[..., Tensor]


def weights_of(dtype: str, zero_point: int) -> Weights:
    """Constants with the same bytes for every type."""
    generator = np.random.default_rng(3)

    def weights(name: str, *shape: int) -> Tensor:
        data = generator.integers(-127, 128, shape).astype(np.int8).view(dtype)
        return Tensor(name, shape, dtype, data, [SCALE], [zero_point])

    return weights


def convolution(weights: Weights) -> bytes:
    bias = constant("b", [1, 2, 3], "float32")
    tensors = [Tensor("x", (1, 5, 7, 6)), weights("w", 3, 3, 3, 6), bias, Tensor("y", (1, 5, 7, 3))]
    conv = Operator("CONV_2D", ["x", "w", "b"], ["y"], "Conv2DOptions", STRIDES)
    return write(tensors, [conv], ["x"], ["y"])


def depthwise(weights: Weights) -> bytes:
    tensors = [Tensor("x", (1, 5, 7, 6)), weights("w", 1, 3, 3, 6), Tensor("y", (1, 5, 7, 6))]
    fields = {**STRIDES, "DepthMultiplier": 1}
    conv = Operator("DEPTHWISE_CONV_2D", ["x", "w", None], ["y"], "DepthwiseConv2DOptions", fields)
    return write(tensors, [conv], ["x"], ["y"])


def fully_connected(weights: Weights) -> bytes:
    tensors = [Tensor("x", (3, 37)), weights("w", 11, 37), Tensor("y", (3, 11))]
    layer = Operator("FULLY_CONNECTED", ["x", "w", None], ["y"], "FullyConnectedOptions")
    return write(tensors, [layer], ["x"], ["y"])


def embedding(weights: Weights) -> bytes:
    tensors = [Tensor("x", (2,), "int32"), weights("w", 11, 37), Tensor("y", (2, 37))]
    return write(tensors, [Operator("EMBEDDING_LOOKUP", ["x", "w"], ["y"])], ["x"], ["y"])


def svdf(weights: Weights) -> bytes:
    tensors = [
        Tensor("x", (2, 37)),
        weights("features", 11, 37),
        weights("times", 11, 4),
        Tensor("memory", (2, 44), variable=True),
        Tensor("y", (2, 11)),
    ]
    inputs = ["x", "features", "times", None, "memory"]
    return write(
        tensors, [Operator("SVDF", inputs, ["y"], "SVDFOptions", {"Rank": 1})], ["x"], ["y"]
    )


def lstm(weights: Weights, sequence: bool = False) -> bytes:
    steps = (2,) if sequence else ()
    gates = [weights(f"w{i}", 3, 8 if i < 4 else 3) for i in range(8)]
    biases = [constant(f"b{i}", np.zeros(3), "float32") for i in range(4)]
    states = [Tensor(name, (2, 3), variable=True) for name in ("output_state", "cell_state")]
    tensors = [Tensor("x", (2, *steps, 8)), *gates, *biases, *states, Tensor("y", (2, *steps, 3))]
    inputs = ["x", *(t.name for t in gates), *[None] * 3, *(t.name for t in biases)]
    inputs += [None, None, *(t.name for t in states)]
    op = "UNIDIRECTIONAL_SEQUENCE_LSTM" if sequence else "LSTM"
    options = "UnidirectionalSequenceLSTMOptions" if sequence else "LSTMOptions"
    fields = {"FusedActivationFunction": 4}
    return write(tensors, [Operator(op, inputs, ["y"], options, fields)], ["x"], ["y"])


def sequence_lstm(weights: Weights) -> bytes:
    return lstm(weights, sequence=True)


SIGNED = [convolution, fully_connected, embedding, svdf, lstm, sequence_lstm]
# LiteRT takes no zero point of rows that are looked up, and ignores that of all others.
PATTERNS = [
    (model, zero) for model in SIGNED for zero in ((0,) if model is embedding else (0, 3, 128))
]


def draw(data: bytes) -> dict[str, np.ndarray]:
    graph, generator = read_model(data).main, np.random.default_rng(0)
    type = graph.types["x"]
    if type.dtype.is_float:
        return {"x": generator.normal(size=type.shape).astype(np.float32)}
    return {"x": generator.integers(0, 11, type.shape).astype(np.int32)}


def ours(data: bytes, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
    (found,) = evaluate(read_model(data).main, inputs, {}).values()
    return found


def theirs(data: bytes, inputs: Sequence[np.ndarray]) -> np.ndarray:
    pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT is not installed")
    (found,) = runtimes.run(runtimes.interpreter("ai_edge_litert", data), inputs)
    return found


@pytest.mark.parametrize("model", SIGNED)
def test_their_bytes_are_signed_whatever_type_they_have(model: Callable[[Weights], bytes]) -> None:
    typed, old = model(weights_of("int8", 0)), model(weights_of("uint8", 0))
    inputs = draw(typed)
    np.testing.assert_array_equal(ours(old, inputs), ours(typed, inputs))


@pytest.mark.parametrize(("model", "zero_point"), PATTERNS)
def test_litert_reads_them_alike(model: Callable[[Weights], bytes], zero_point: int) -> None:
    old = model(weights_of("uint8", zero_point))
    inputs = draw(old)
    expected = theirs(old, list(inputs.values()))
    assert np.abs(ours(old, inputs) - expected).max() <= ROUNDED * np.ptp(expected)


def test_depthwise_weights_are_what_their_type_says() -> None:
    """LiteRT never took such bytes there, so that nothing but the type says what they are."""
    old, moved = depthwise(weights_of("uint8", 0)), depthwise(weights_of("uint8", 100))
    inputs = draw(old)
    graph = read_model(old).main
    (real,) = (graph.constants[name] for name in graph.nodes[0].reads if name in graph.constants)
    assert real.min() >= 0
    assert not np.allclose(ours(old, inputs), ours(moved, inputs))


def test_whoever_dequantises_the_same_bytes_takes_them_as_unsigned() -> None:
    """One constant that a layer reads as signed and DEQUANTIZE as its type says."""
    weights = weights_of("uint8", 0)("w", 4, 8)
    tensors = [
        *(Tensor("x", (4, 8)), weights, Tensor("d", (4, 8))),
        *(Tensor("product", (4, 4)), Tensor("sum", (4, 8))),
    ]
    operators = [
        Operator("FULLY_CONNECTED", ["x", "w", None], ["product"], "FullyConnectedOptions"),
        Operator("DEQUANTIZE", ["w"], ["d"]),
        Operator("ADD", ["x", "d"], ["sum"], "AddOptions"),
    ]
    data = write(tensors, operators, ["x"], ["product", "sum"])
    x = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)
    product, total = evaluate(read_model(data).main, {"x": x}).values()
    assert weights.data is not None
    signed = weights.data.view(np.int8).astype(np.float32) * SCALE
    np.testing.assert_allclose(product, x @ signed.T, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(total, x + weights.data.astype(np.float32) * SCALE, rtol=1e-5)

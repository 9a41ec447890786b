"""Integer weights with float activations. Old files declare signed bytes as uint8, which LiteRT
accepts.
"""

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
TOLERANCE = 0.02  # of the range: LiteRT quantizes the activations to int8 before it multiplies

Weights = Callable[..., Tensor]


def make_weights(dtype: str, zero_point: int) -> Weights:
    """Return a function that creates constants with the same bytes for every type."""
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
# LiteRT rejects zero points of lookup tables and ignores those of all other weights.
PATTERNS = [
    (model, zero) for model in SIGNED for zero in ((0,) if model is embedding else (0, 3, 128))
]


def random_inputs(data: bytes) -> dict[str, np.ndarray]:
    graph, generator = read_model(data).main, np.random.default_rng(0)
    type = graph.types["x"]
    if type.dtype.is_float:
        return {"x": generator.normal(size=type.shape).astype(np.float32)}
    return {"x": generator.integers(0, 11, type.shape).astype(np.int32)}


def run_reference(data: bytes, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
    (result,) = evaluate(read_model(data).main, inputs, {}).values()
    return result


def run_litert(data: bytes, inputs: Sequence[np.ndarray]) -> np.ndarray:
    pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT is not installed")
    (outputs,) = runtimes.run(runtimes.interpreter("ai_edge_litert", data), inputs)
    return outputs


@pytest.mark.parametrize("model", SIGNED)
def test_weight_bytes_are_signed_regardless_of_their_type(
    model: Callable[[Weights], bytes],
) -> None:
    typed, old = model(make_weights("int8", 0)), model(make_weights("uint8", 0))
    inputs = random_inputs(typed)
    np.testing.assert_array_equal(run_reference(old, inputs), run_reference(typed, inputs))


@pytest.mark.parametrize(("model", "zero_point"), PATTERNS)
def test_hybrid_weights_match_litert(model: Callable[[Weights], bytes], zero_point: int) -> None:
    old = model(make_weights("uint8", zero_point))
    inputs = random_inputs(old)
    expected = run_litert(old, list(inputs.values()))
    assert np.abs(run_reference(old, inputs) - expected).max() <= TOLERANCE * np.ptp(expected)


def test_depthwise_weights_are_unsigned_as_declared() -> None:
    """LiteRT never accepted such bytes in depthwise layers, so the declared type applies."""
    old, moved = depthwise(make_weights("uint8", 0)), depthwise(make_weights("uint8", 100))
    inputs = random_inputs(old)
    graph = read_model(old).main
    (real,) = (graph.constants[name] for name in graph.nodes[0].reads if name in graph.constants)
    assert real.min() >= 0
    assert not np.allclose(run_reference(old, inputs), run_reference(moved, inputs))


def test_dequantize_reads_shared_bytes_as_unsigned() -> None:
    """One constant is signed for a layer, and unsigned, as declared, for DEQUANTIZE."""
    weights = make_weights("uint8", 0)("w", 4, 8)
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

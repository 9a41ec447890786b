"""Quantized graphs written as TFLite files run with LiteRT's integer kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from random_graphs import build
from runtimes import interpreter, run

from fourfold.backends.cpu.reference import evaluate
from fourfold.formats import formats, read_model
from fourfold.formats.tflite.reader import read_file
from fourfold.formats.writable import StoredAs, WritableModel
from fourfold.graph import Graph
from fourfold.types import DType, Quantization, dequantize, to_integers

pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

NETWORK = """
    input x: f32[1,9,9,3]
    const w: f32[8,3,3,3]
    const b: f32[8]
    layer = conv2d(x, w, b; stride=(2,2), padding=Padding(0,1,0,1))
    active = relu6(layer)
    const dw: f32[1,3,3,8]
    deep = depthwise_conv2d(active, dw, -; padding=Padding(1,1,1,1))
    leaky = leaky_relu(deep; alpha=0.1)
    sum = add(leaky, active)
    mean = mean(sum; axes=(1,2), keep_dims=False)
    const fw: f32[10,8]
    const fb: f32[10]
    logits = fully_connected(mean, fw, fb)
    y = softmax(logits)
    output y
"""
VALUES = ("x", "active", "deep", "leaky", "sum", "mean", "logits", "y")
CHANNELS = {"w": 0, "dw": 3}
WEIGHTS = {DType.I8: DType.I8, DType.U8: DType.U8}


def quantize_range(array: np.ndarray, dtype: DType) -> StoredAs:
    """Return a quantization that spans all values of an array, symmetric for i16."""
    low, high = min(float(array.min()), 0.0), max(float(array.max()), 0.0)
    if dtype is DType.I16:
        return StoredAs(dtype, Quantization((max(-low, high, 1e-6) / 32767,), (0,)))
    scale = max(high - low, 1e-6) / 255
    zero = int(np.iinfo(dtype.numpy).min - round(low / scale))
    return StoredAs(dtype, Quantization((scale,), (zero,)))


def symmetric(array: np.ndarray, axis: int | None, dtype: DType) -> StoredAs:
    """Return a scale for each channel, or one for all."""
    top = 7 if dtype is DType.I4 else 127
    others = tuple(other for other in range(array.ndim) if other != axis)
    largest = np.abs(array).max(axis=None if axis is None else others)
    scales = tuple(float(one) / top for one in np.atleast_1d(largest))
    return StoredAs(dtype, Quantization(scales, (0,) * len(scales), axis))


def every_value(graph: Graph, x: np.ndarray) -> Mapping[str, np.ndarray]:
    names = tuple(name for node in graph.nodes for name in node.outputs)
    return {**graph.constants, "x": x, **evaluate(replace(graph, outputs=names), {"x": x})}


def image() -> np.ndarray:
    return np.random.default_rng(3).uniform(-1, 1, (1, 9, 9, 3)).astype(np.float32)


def weights(graph: Graph, dtype: DType) -> dict[str, StoredAs]:
    return {
        name: quantize_range(graph.constants[name], dtype)
        if dtype is DType.U8
        else symmetric(graph.constants[name], CHANNELS.get(name), dtype)
        for name in ("w", "dw", "fw")
    }


def with_rounded_weights(graph: Graph, stored: Mapping[str, StoredAs]) -> Graph:
    """Return the graph with the weights of the file, so that only rounding of values differs."""
    constants = dict(graph.constants)
    for name in CHANNELS | {"fw": 0}:
        form = stored[name]
        assert form.quantization is not None
        integers = to_integers(
            constants[name], form.quantization, WEIGHTS.get(form.dtype, DType.I8)
        )
        constants[name] = dequantize(integers, form.quantization)
    return replace(graph, constants=constants)


def write_graph(graph: Graph, stored: Mapping[str, StoredAs]) -> bytes:
    return formats()["tflite"].write(WritableModel(graph, ("x",), ("y",), stored))


def operators(content: bytes) -> list[str]:
    return [one.op for one in read_file(content, "it").subgraphs[0].operators]


@pytest.mark.parametrize("plain", [True, False], ids=["kernels", "xnnpack"])
@pytest.mark.parametrize(
    ("dtype", "kept", "tolerance"),
    [
        (DType.I8, DType.I8, 1e-2),
        (DType.U8, DType.U8, 1e-2),
        (DType.I16, DType.I8, 1e-3),
        (DType.I8, DType.I4, 2e-2),
    ],
    ids=["int8", "uint8", "int16x8", "int4-weights"],
)
def test_networks_run_with_integer_kernels(
    dtype: DType, kept: DType, tolerance: float, plain: bool
) -> None:
    graph, x = build(NETWORK), image()
    values = every_value(graph, x)
    stored = {
        **weights(graph, kept),
        **{name: quantize_range(values[name], dtype) for name in VALUES},
    }
    content = write_graph(graph, stored)
    expected = ["PAD", "CONV_2D", "DEPTHWISE_CONV_2D", "LEAKY_RELU", "ADD", "MEAN"]
    # The output scale of softmax is fixed and differs from the requested one.
    assert operators(content) == [*expected, "FULLY_CONNECTED", "SOFTMAX", "QUANTIZE"]
    before, after = stored["x"].quantization, stored["y"].quantization
    assert before is not None
    assert after is not None
    integers = to_integers(x, before, dtype)
    (result,) = run(interpreter("ai_edge_litert", content, plain=plain), [integers])
    assert result.dtype == dtype.numpy
    right = every_value(with_rounded_weights(graph, stored), x)["y"]
    assert np.abs(dequantize(result, after) - right).max() < tolerance
    if plain:
        (ours,) = evaluate(read_model(content).main, {"x": integers}).values()
        steps = 40 if dtype is DType.I16 else 1
        assert np.abs(ours.astype(np.int64) - result.astype(np.int64)).max() <= steps


@pytest.mark.parametrize("kept", [DType.I8, DType.I4], ids=["int8", "int4"])
def test_integer_weights_with_float_activations(kept: DType) -> None:
    graph, x = build(NETWORK), image()
    stored = weights(graph, kept)
    content = write_graph(graph, stored)
    result = operators(content)
    # LiteRT has a hybrid four-bit kernel only for fully connected layers.
    assert result.count("DEQUANTIZE") == (0 if kept is DType.I8 else 2)
    (ours,) = run(interpreter("ai_edge_litert", content), [x])
    expected = every_value(with_rounded_weights(graph, stored), x)["y"]
    assert np.abs(ours - expected).max() < 1e-2
    assert len(content) < len(write_graph(graph, {}))


def test_hybrid_depthwise_layer_with_one_scale() -> None:
    text = "input x: f32[1,9,9,3]\nconst w: f32[1,3,3,3]\ny = depthwise_conv2d(x, w, -)\noutput y"
    graph, x = build(text), image()
    content = write_graph(graph, {"w": symmetric(graph.constants["w"], None, DType.I8)})
    assert operators(content) == ["DEPTHWISE_CONV_2D"]
    (result,) = run(interpreter("ai_edge_litert", content), [x])
    expected = every_value(graph, x)["y"]
    assert np.abs(result - expected).max() < 0.02 * np.abs(expected).max()


@pytest.mark.parametrize(
    ("kept", "conversions"),
    [
        (("active",), ["QUANTIZE", "DEQUANTIZE"]),
        (("x", "active"), ["DEQUANTIZE"]),
        (("mean", "logits", "y"), ["QUANTIZE", "QUANTIZE"]),
    ],
)
def test_inserts_conversions_between_integers_and_floats(
    kept: tuple[str, ...], conversions: list[str]
) -> None:
    graph, x = build(NETWORK), image()
    values = every_value(graph, x)
    stored = {
        **weights(graph, DType.I8),
        **{name: quantize_range(values[name], DType.I8) for name in kept},
    }
    content = write_graph(graph, stored)
    assert [op for op in operators(content) if op.endswith("QUANTIZE")] == conversions
    form, inputs = stored.get("x"), x
    if form is not None and form.quantization is not None:
        inputs = to_integers(x, form.quantization, DType.I8)
    (result,) = run(interpreter("ai_edge_litert", content), [inputs])
    last = stored.get("y")
    real = result if last is None else dequantize(result, last.quantization)
    expected = every_value(with_rounded_weights(graph, stored), x)["y"]
    assert np.abs(real - expected).max() < 1e-2


def test_bias_has_the_product_scale() -> None:
    graph, x = build(NETWORK), image()
    values = every_value(graph, x)
    stored = {
        **weights(graph, DType.I8),
        **{name: quantize_range(values[name], DType.I8) for name in VALUES},
    }
    (main,) = read_file(write_graph(graph, stored), "it").subgraphs
    (layer,) = [one for one in main.operators if one.op == "CONV_2D"]
    before, kernel, bias = (main.tensors[index].quantization for index in layer.inputs)
    assert before is not None
    assert kernel is not None
    assert bias is not None
    assert main.tensors[layer.inputs[2]].dtype is DType.I32
    products = np.float32(before.scale[0]) * np.array(kernel.scale, np.float32)
    np.testing.assert_allclose(bias.scale, products, rtol=1e-6)
    assert kernel.axis == 0
    assert layer.version == 3

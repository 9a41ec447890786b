"""Quantised graphs written as TFLite files: LiteRT's integer kernels run them."""

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


def grid(array: np.ndarray, dtype: DType) -> StoredAs:
    """A grid that spans all numbers of an array, symmetric for i16."""
    low, high = min(float(array.min()), 0.0), max(float(array.max()), 0.0)
    if dtype is DType.I16:
        return StoredAs(dtype, Quantization((max(-low, high, 1e-6) / 32767,), (0,)))
    scale = max(high - low, 1e-6) / 255
    zero = int(np.iinfo(dtype.numpy).min - round(low / scale))
    return StoredAs(dtype, Quantization((scale,), (zero,)))


def symmetric(array: np.ndarray, axis: int | None, dtype: DType) -> StoredAs:
    """A scale for each channel, or for all."""
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
        name: grid(graph.constants[name], dtype)
        if dtype is DType.U8
        else symmetric(graph.constants[name], CHANNELS.get(name), dtype)
        for name in ("w", "dw", "fw")
    }


def rounded(graph: Graph, stored: Mapping[str, StoredAs]) -> Graph:
    """The graph with the very weights that the file has; what is left are roundings of values."""
    constants = dict(graph.constants)
    for name in CHANNELS | {"fw": 0}:
        form = stored[name]
        assert form.quantization is not None
        integers = to_integers(
            constants[name], form.quantization, WEIGHTS.get(form.dtype, DType.I8)
        )
        constants[name] = dequantize(integers, form.quantization)
    return replace(graph, constants=constants)


def written(graph: Graph, stored: Mapping[str, StoredAs]) -> bytes:
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
def test_whole_networks_run_on_integers(
    dtype: DType, kept: DType, tolerance: float, plain: bool
) -> None:
    graph, x = build(NETWORK), image()
    values = every_value(graph, x)
    stored = {**weights(graph, kept), **{name: grid(values[name], dtype) for name in VALUES}}
    content = written(graph, stored)
    wanted = ["PAD", "CONV_2D", "DEPTHWISE_CONV_2D", "LEAKY_RELU", "ADD", "MEAN"]
    # The grid of softmax is prescribed, and is another than was asked for.
    assert operators(content) == [*wanted, "FULLY_CONNECTED", "SOFTMAX", "QUANTIZE"]
    before, after = stored["x"].quantization, stored["y"].quantization
    assert before is not None
    assert after is not None
    integers = to_integers(x, before, dtype)
    (found,) = run(interpreter("ai_edge_litert", content, plain=plain), [integers])
    assert found.dtype == dtype.numpy
    right = every_value(rounded(graph, stored), x)["y"]
    assert np.abs(dequantize(found, after) - right).max() < tolerance
    if plain:
        (ours,) = evaluate(read_model(content).main, {"x": integers}).values()
        steps = 40 if dtype is DType.I16 else 1
        assert np.abs(ours.astype(np.int64) - found.astype(np.int64)).max() <= steps


@pytest.mark.parametrize("kept", [DType.I8, DType.I4], ids=["int8", "int4"])
def test_integer_weights_beside_real_values(kept: DType) -> None:
    graph, x = build(NETWORK), image()
    stored = weights(graph, kept)
    content = written(graph, stored)
    found = operators(content)
    # LiteRT has a hybrid kernel on four bits for fully connected layers alone.
    assert found.count("DEQUANTIZE") == (0 if kept is DType.I8 else 2)
    (ours,) = run(interpreter("ai_edge_litert", content), [x])
    wanted = every_value(rounded(graph, stored), x)["y"]
    assert np.abs(ours - wanted).max() < 1e-2
    assert len(content) < len(written(graph, {}))


def test_one_scale_for_all_channels_of_a_hybrid_depthwise_layer() -> None:
    text = "input x: f32[1,9,9,3]\nconst w: f32[1,3,3,3]\ny = depthwise_conv2d(x, w, -)\noutput y"
    graph, x = build(text), image()
    content = written(graph, {"w": symmetric(graph.constants["w"], None, DType.I8)})
    assert operators(content) == ["DEPTHWISE_CONV_2D"]
    (found,) = run(interpreter("ai_edge_litert", content), [x])
    wanted = every_value(graph, x)["y"]
    assert np.abs(found - wanted).max() < 0.02 * np.abs(wanted).max()


@pytest.mark.parametrize(
    ("kept", "conversions"),
    [
        (("active",), ["QUANTIZE", "DEQUANTIZE"]),
        (("x", "active"), ["DEQUANTIZE"]),
        (("mean", "logits", "y"), ["QUANTIZE", "QUANTIZE"]),
    ],
)
def test_conversions_stand_where_integers_meet_floats(
    kept: tuple[str, ...], conversions: list[str]
) -> None:
    graph, x = build(NETWORK), image()
    values = every_value(graph, x)
    stored = {**weights(graph, DType.I8), **{name: grid(values[name], DType.I8) for name in kept}}
    content = written(graph, stored)
    assert [op for op in operators(content) if op.endswith("QUANTIZE")] == conversions
    form, given = stored.get("x"), x
    if form is not None and form.quantization is not None:
        given = to_integers(x, form.quantization, DType.I8)
    (found,) = run(interpreter("ai_edge_litert", content), [given])
    last = stored.get("y")
    real = found if last is None else dequantize(found, last.quantization)
    wanted = every_value(rounded(graph, stored), x)["y"]
    assert np.abs(real - wanted).max() < 1e-2


def test_a_bias_has_the_scale_of_the_products() -> None:
    graph, x = build(NETWORK), image()
    values = every_value(graph, x)
    stored = {**weights(graph, DType.I8), **{name: grid(values[name], DType.I8) for name in VALUES}}
    (main,) = read_file(written(graph, stored), "it").subgraphs
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

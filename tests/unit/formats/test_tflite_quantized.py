"""Quantized values of TFLite files: their conversion, and agreement with LiteRT."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from random_graphs import assert_equal
from tflite_writer import Operator, Tensor, constant, write

import fourfold
from fourfold.backends.cpu.reference import evaluate
from fourfold.compiler.rewrite import rewrite
from fourfold.errors import UnsupportedError
from fourfold.formats import ReadOptions, read_model
from fourfold.graph import Graph

MAX_SHARE_OFF_BY_ONE = 0.2  # LiteRT rounds twice
SAME = {"StrideH": 1, "StrideW": 1, "Padding": 0}


def tensor(name: str, shape: Sequence[int], scale: float, zero: int, dtype: str = "int8") -> Tensor:
    return Tensor(name, shape, dtype, scale=[scale], zero_point=[zero])


def weights(shape: Sequence[int], axis: int = 0, seed: int = 1) -> Tensor:
    """Return weights with one scale for each output channel."""
    data = np.random.default_rng(seed).integers(-127, 128, shape).astype(np.int8)
    scales = [0.01 + 0.002 * i for i in range(shape[axis])]
    return Tensor("w", shape, "int8", data, scales, [0] * shape[axis], axis)


def convolution(
    dtype: str = "int8", zero: int = 3, activation: int = 3, bias_scale: float = 0.02
) -> bytes:
    kernel = weights((5, 3, 3, 4))
    bias = np.arange(-2, 3, dtype=np.int64 if dtype == "int16" else np.int32) * 500
    scales = [bias_scale * scale for scale in kernel.scale]
    tensors = [
        tensor("x", (1, 6, 7, 4), 0.02, zero, dtype),
        kernel,
        Tensor("b", (5,), bias.dtype.name, bias, scales, [0] * 5, 0),
        tensor("y", (1, 6, 7, 5), 0.03, 0 if dtype == "int16" else -20 + zero, dtype),
    ]
    fields = {**SAME, "FusedActivationFunction": activation}
    conv = Operator("CONV_2D", ["x", "w", "b"], ["y"], "Conv2DOptions", fields)
    return write(tensors, [conv], ["x"], ["y"])


def unary(op: str, before: Tensor, after: Tensor, *more: Tensor, **options: object) -> bytes:
    table = str(options.pop("table", ""))
    inputs = [before.name, *(one.name for one in more)]
    operator = Operator(op, inputs, [after.name], table, options)
    return write([before, *more, after], [operator], [before.name], [after.name])


def nodes(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def litert(data: bytes, inputs: Sequence[np.ndarray]) -> np.ndarray:
    """Return the result of LiteRT's reference kernels."""
    module = pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT is not installed")
    resolver = module.OpResolverType.BUILTIN_REF
    interpreter = module.Interpreter(model_content=data, experimental_op_resolver_type=resolver)
    interpreter.allocate_tensors()
    for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return np.asarray(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))


def check(data: bytes, most: int = 1) -> Graph:
    """Check that the graph agrees with LiteRT to one step, and exactly in most elements."""
    graph = read_model(data).main
    rng = np.random.default_rng(0)
    inputs = {}
    for name in graph.inputs:
        dtype = graph.types[name].dtype.numpy
        limits = np.iinfo(dtype)
        integers = rng.integers(limits.min, limits.max, graph.types[name].shape, endpoint=True)
        inputs[name] = integers.astype(dtype)
    (ours,) = evaluate(graph, inputs).values()
    theirs = litert(data, list(inputs.values()))
    assert ours.dtype == theirs.dtype
    assert ours.shape == theirs.shape
    difference = np.abs(ours.astype(np.int64) - theirs.astype(np.int64))
    assert difference.max(initial=0) <= most
    assert np.mean(difference > 0) <= MAX_SHARE_OFF_BY_ONE
    return graph


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("activation", [0, 1, 3])
def test_per_channel_convolution(dtype: str, activation: int) -> None:
    graph = check(convolution(dtype, 0 if dtype == "int16" else 3, activation))
    assert nodes(graph) == ["dequantize", "conv2d", "fake_quantize", "quantize"]
    assert graph.quantization["x"].scale == pytest.approx((0.02,))


def test_activation_narrows_the_quantized_range() -> None:
    graph = read_model(convolution(activation=3)).main
    attributes = graph.producers["y"].attributes
    assert (attributes.low, attributes.high) == (0, 144)  # type: ignore[attr-defined]
    open_graph = read_model(convolution(activation=0)).main
    assert open_graph.producers["y"].attributes.low == -111  # type: ignore[attr-defined]


def test_inputs_and_outputs_keep_their_type() -> None:
    graph = read_model(convolution()).main
    assert str(graph.types["x"]) == "i8[1,6,7,4]"
    (output,) = graph.outputs
    assert str(graph.types[output]) == "i8[1,6,7,5]"
    assert graph.quantization[output].scale == pytest.approx((0.03,))
    assert graph.quantization[output].zero_point == (-17,)


def test_bias_without_a_scale_gets_the_product_scale() -> None:
    kernel = weights((3, 8))
    tensors = [
        tensor("x", (2, 8), 0.05, -7),
        Tensor("w", kernel.shape, "int8", kernel.data, [0.04], [0]),
        Tensor("b", (3,), "int32", np.array([100, -900, 7], np.int32)),
        tensor("y", (2, 3), 0.4, 2),
    ]
    table = "FullyConnectedOptions"
    operator = Operator("FULLY_CONNECTED", ["x", "w", "b"], ["y"], table)
    check(write(tensors, [operator], ["x"], ["y"]))


@pytest.mark.parametrize("op", ["ADD", "SUB", "MUL"])
def test_rescales_both_inputs(op: str) -> None:
    tensors = [
        tensor("a", (3, 5), 0.02, 5),
        tensor("b", (3, 5), 0.05, -3),
        tensor("y", (3, 5), 0.06, 1),
    ]
    table = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions"}[op]
    check(write(tensors, [Operator(op, ["a", "b"], ["y"], table)], ["a", "b"], ["y"]))


UNARY = {
    "LOGISTIC": (1 / 256, -128),
    "TANH": (1 / 128, 0),
    "HARD_SWISH": (0.03, -100),
    "RELU": (0.025, -128),
    "RELU6": (6 / 255, -128),
    "SOFTMAX": (1 / 256, -128),
}


@pytest.mark.parametrize("op", UNARY)
def test_activation(op: str) -> None:
    table = "SoftmaxOptions" if op == "SOFTMAX" else ""
    options = {"Beta": 1.0} if table else {}
    before, after = tensor("x", (4, 33), 0.05, 12), tensor("y", (4, 33), *UNARY[op])
    check(unary(op, before, after, table=table, **options))


@pytest.mark.parametrize("zero", [0, -9])
def test_leaky_relu(zero: int) -> None:
    before, after = tensor("x", (4, 33), 0.05, zero), tensor("y", (4, 33), 0.043, 3)
    check(unary("LEAKY_RELU", before, after, table="LeakyReluOptions", Alpha=0.3))


def test_mean_rounds_to_the_output() -> None:
    before, after = tensor("x", (1, 5, 5, 39), 0.05, 4), tensor("y", (1, 39), 0.021, -5)
    check(unary("MEAN", before, after, constant("axes", [1, 2]), table="ReducerOptions"))


def test_average_pool_rounds_to_the_same_scale() -> None:
    before, after = tensor("x", (1, 6, 6, 3), 0.05, 4), tensor("y", (1, 2, 2, 3), 0.05, 4)
    options = {"StrideH": 3, "StrideW": 3, "FilterHeight": 3, "FilterWidth": 3, "Padding": 1}
    graph = check(unary("AVERAGE_POOL_2D", before, after, table="Pool2DOptions", **options))
    assert "fake_quantize" in nodes(graph)


def test_resize_bilinear() -> None:
    before, after = tensor("x", (1, 4, 5, 3), 0.05, 4), tensor("y", (1, 7, 9, 3), 0.05, 4)
    size = constant("size", [7, 9])
    check(unary("RESIZE_BILINEAR", before, after, size, table="ResizeBilinearOptions"))


def test_ops_that_keep_the_scale_are_not_rounded() -> None:
    before, after = tensor("x", (2, 6), 0.05, 4), tensor("y", (3, 4), 0.05, 4)
    graph = check(unary("RESHAPE", before, after, constant("shape", [3, 4])), most=0)
    assert nodes(graph) == ["dequantize", "reshape", "quantize"]


def test_pads_with_the_zero_point() -> None:
    before, after = tensor("x", (2, 3), 0.05, 4), tensor("y", (4, 3), 0.05, 4)
    graph = check(unary("PAD", before, after, constant("p", [[1, 1], [0, 0]])), most=0)
    assert "fake_quantize" not in nodes(graph)


@pytest.mark.parametrize("axis", [0, 1])
def test_concat_with_one_scale(axis: int) -> None:
    shape = (4, 3) if axis == 0 else (2, 6)
    tensors = [*(tensor(name, (2, 3), 0.05, 4) for name in "ab"), tensor("y", shape, 0.05, 4)]
    table = "ConcatenationOptions"
    operator = Operator("CONCATENATION", ["a", "b"], ["y"], table, {"Axis": axis})
    graph = check(write(tensors, [operator], ["a", "b"], ["y"]), most=0)
    assert "fake_quantize" not in nodes(graph)


def test_requantize_to_the_same_scale_is_dropped() -> None:
    before, after = tensor("x", (2, 3), 0.05, 130, "uint8"), tensor("y", (2, 3), 0.05, 2)
    graph = check(unary("QUANTIZE", before, after), most=0)
    assert nodes(graph) == ["dequantize", "identity", "quantize"]


def test_requantize_to_another_scale() -> None:
    before, after = tensor("x", (7, 9), 0.05, 130, "uint8"), tensor("y", (7, 9), 0.08, 2)
    assert "fake_quantize" in nodes(check(unary("QUANTIZE", before, after)))


def test_quantize_and_dequantize_of_floats() -> None:
    tensors = [Tensor("x", (2, 3)), tensor("q", (2, 3), 0.1, 5, "uint8"), Tensor("y", (2, 3))]
    operators = [Operator("QUANTIZE", ["x"], ["q"]), Operator("DEQUANTIZE", ["q"], ["y"])]
    data = write(tensors, operators, ["x"], ["y"])
    x = np.array([[-9.0, -0.26, 0.0], [0.149, 3.14, 99.0]], np.float32)
    (ours,) = evaluate(read_model(data).main, {"x": x}).values()
    np.testing.assert_allclose(ours, litert(data, [x]), atol=1e-5)


def test_arg_max_needs_no_rounding() -> None:
    tensors = [tensor("x", (3, 7), 0.1, 5), constant("axis", 1), Tensor("y", (3,), "int32")]
    operator = Operator("ARG_MAX", ["x", "axis"], ["y"], "ArgMaxOptions", {"OutputType": 2})
    graph = check(write(tensors, [operator], ["x"], ["y"]), most=0)
    assert nodes(graph) == ["dequantize", "arg_max"]


def test_cast_reads_integers() -> None:
    graph = check(unary("CAST", tensor("x", (2, 3), 0.1, 5), Tensor("y", (2, 3), "int32")), most=0)
    assert nodes(graph) == ["cast"]


def test_quantized_false_rejects_quantized_ops() -> None:
    with pytest.raises(UnsupportedError, match="quantized=False") as caught:
        read_model(convolution(), ReadOptions(quantized=False))
    assert [refusal.op for refusal in caught.value.refusals] == ["CONV_2D"]


def test_rejects_invalid_scales() -> None:
    before, after = tensor("x", (2, 3), 0.0, 0), tensor("y", (2, 3), 0.05, 4)
    with pytest.raises(UnsupportedError, match="invalid scale"):
        read_model(unary("RELU", before, after))


def product(dtype: str, scale: float, depth: int = 8) -> bytes:
    """Return a product whose factors have a scale of 2**-15, so that 2**-30 counts
    product steps.
    """
    tensors = [
        *(
            tensor("a", (4, depth), 2.0**-15, 0, "int16"),
            tensor("b", (depth, 3), 2.0**-15, 0, dtype),
        ),
        tensor("y", (4, 3), scale, 0, "int16"),
    ]
    operator = Operator("BATCH_MATMUL", ["a", "b"], ["y"], "BatchMatMulOptions")
    return write(tensors, [operator], ["a", "b"], ["y"])


def test_accepts_int16_products_with_a_coarse_result() -> None:
    graph = check(product("int16", 2.0**-12))
    assert "batch_matmul" in nodes(graph)


def test_rejects_int16_products_that_exceed_float32() -> None:
    with pytest.raises(UnsupportedError, match="exceed the precision of float32"):
        read_model(product("int16", 2.0**-30))
    read_model(product("int8", 2.0**-30))  # int8 products are exact


def test_cancelling_sums_are_exact() -> None:
    """In float32 they would be up to 192 steps from zero."""
    pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT is not installed")
    generator = np.random.default_rng(0)
    half = generator.integers(-32767, 32768, (4, 4))
    column = generator.integers(-32767, 32768, (4, 3))
    order = generator.permutation(8)
    a = np.concatenate([half, half], 1)[:, order].astype(np.int16)
    b = np.concatenate([column, -column])[order].astype(np.int16)
    exact = a.astype(np.int64) @ b.astype(np.int64)
    assert not exact.any()
    assert np.abs(a.astype(np.float32) @ b.astype(np.float32)).max() > 1
    with fourfold.Session(product("int16", 2.0**-30)) as session:
        (outputs,) = session.run({"a": a, "b": b}).values()
    np.testing.assert_array_equal(outputs, exact)


def test_rejects_invalid_zero_points_of_outputs() -> None:
    after = tensor("y", (2, 3), 0.05, 2**40, "int32")
    with pytest.raises(UnsupportedError, match="zero point 1099511627776"):
        read_model(unary("RELU", Tensor("x", (2, 3)), after))


def test_rejects_complex_weights() -> None:
    bias = Tensor("b", (5,), data=np.full(5, 1j, np.complex64), dtype="complex64", scale=[0.5])
    tensors = [Tensor("x", (1, 4)), Tensor("w", (5, 4), data=np.ones((5, 4), np.float32)), bias]
    operator = Operator("FULLY_CONNECTED", ["x", "w", "b"], ["y"], "FullyConnectedOptions")
    with pytest.raises(UnsupportedError, match="c64 values, which cannot become floats"):
        read_model(write([*tensors, Tensor("y", (1, 5))], [operator], ["x"], ["y"]))


@pytest.mark.parametrize("scale", [0.02, 0.02000001, 0.06, 0.0])
def test_bias_counts_product_steps(scale: float) -> None:
    graph = check(convolution(bias_scale=scale))
    assert_equal(graph, rewrite(graph))

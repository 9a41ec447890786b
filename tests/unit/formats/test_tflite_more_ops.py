"""Further TFLite ops: one small file for each variant; the references agree with LiteRT."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from flatbuffers import flexbuffers
from tflite_checks import RANDOM, check, draw, litert, out, weights
from tflite_writer import Operator, Subgraph, Tensor, constant, write, write_model

from fourfold.backends.cpu.reference import evaluate
from fourfold.errors import ModelError, UnsupportedError
from fourfold.formats import read_model
from fourfold.types import TensorType

pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT is not installed")
SAME, VALID = 0, 1


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize(
    "op", ["EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"]
)
def test_comparisons(op: str, dtype: str) -> None:
    tensors = [Tensor("a", (2, 3, 5), dtype), Tensor("b", (5,), dtype), out(2, 3, 5, dtype="bool")]
    check(Operator(op, ["a", "b"], ["y"]), *tensors)


@pytest.mark.parametrize("op", ["SIN", "COS", "CEIL", "ROUND", "RELU_0_TO_1", "SIGN"])
def test_unary(op: str) -> None:
    check(Operator(op, ["x"], ["y"]), Tensor("x", (2, 3, 7)), out(2, 3, 7), low=-9, high=9)


def test_round_half_to_even() -> None:
    halves = constant("x", np.arange(-3.5, 4), "float32")
    tensors = [Tensor("a", (8,)), halves, out(8, name="s"), out(8)]
    operators = [Operator("ADD", ["a", "x"], ["s"]), Operator("ROUND", ["s"], ["y"])]
    data = write(tensors, operators, ["a"], ["y"])
    zeros = np.zeros(8, np.float32)
    (result,) = evaluate(read_model(data).main, {"a": zeros}).values()
    np.testing.assert_array_equal(result, litert(data, [zeros])[0])


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("op", ["FLOOR_DIV", "FLOOR_MOD"])
def test_floor(op: str, dtype: str) -> None:
    divisors = constant("b", [3, -3, 7, -7, 2], dtype)
    tensors = [Tensor("a", (2, 3, 5), dtype), divisors, out(2, 3, 5, dtype=dtype)]
    check(Operator(op, ["a", "b"], ["y"]), *tensors, low=-29, high=29)


def test_logic() -> None:
    a, b, y = (Tensor(name, (3, 5), "bool") for name in "aby")
    check(Operator("LOGICAL_OR", ["a", "b"], ["y"]), a, b, y)
    check(Operator("LOGICAL_NOT", ["a"], ["y"]), a, y)


def test_atan2() -> None:
    check(Operator("ATAN2", ["a", "b"], ["y"]), Tensor("a", (3, 5)), Tensor("b", (3, 5)), out(3, 5))


@pytest.mark.parametrize(
    ("op", "shape"),
    [
        *(("SELECT", shape) for shape in ((2, 3, 5), (), (2,))),
        *(("SELECT_V2", shape) for shape in ((2, 3, 5), (), (3, 1))),
    ],
)
def test_select(op: str, shape: tuple[int, ...]) -> None:
    tensors = [Tensor("c", shape, "bool"), Tensor("a", (2, 3, 5)), Tensor("b", (2, 3, 5))]
    check(Operator(op, ["c", "a", "b"], ["y"]), *tensors, out(2, 3, 5))


def test_add_n() -> None:
    tensors = [Tensor(name, (3, 5)) for name in "abc"]
    check(Operator("ADD_N", ["a", "b", "c"], ["y"]), *tensors, out(3, 5))


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize(
    ("op", "dtype"),
    [("REDUCE_PROD", "float32"), ("REDUCE_ANY", "bool"), ("REDUCE_ALL", "bool")],
)
def test_reduce(op: str, dtype: str, keep: bool) -> None:
    tensors = [Tensor("x", (2, 3, 5), dtype), constant("axes", [1, -1]), out(1, dtype=dtype)]
    check(Operator(op, ["x", "axes"], ["y"], "ReducerOptions", {"KeepDims": keep}), *tensors)


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_cumsum(axis: int, exclusive: bool, reverse: bool) -> None:
    fields = {"Exclusive": exclusive, "Reverse": reverse}
    tensors = [Tensor("x", (3, 5, 7)), constant("axis", axis), out(3, 5, 7)]
    check(Operator("CUMSUM", ["x", "axis"], ["y"], "CumsumOptions", fields), *tensors)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_one_hot(axis: int) -> None:
    tensors = [
        Tensor("i", (3, 5), "int32"),
        constant("depth", 4),
        constant("on", 2.5, "float32"),
        constant("off", -1.0, "float32"),
        out(1),
    ]
    inputs = [tensor.name for tensor in tensors[:4]]
    operator = Operator("ONE_HOT", inputs, ["y"], "OneHotOptions", {"Axis": axis})
    check(operator, *tensors, low=-1, high=5)


def test_arg_min() -> None:
    tensors = [Tensor("x", (3, 5, 7)), constant("axis", 1), out(3, 7, dtype="int64")]
    check(Operator("ARG_MIN", ["x", "axis"], ["y"], "ArgMinOptions", {"OutputType": 4}), *tensors)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_top_k(dtype: str) -> None:
    outputs = [out(2, 3, 5, dtype=dtype, name="v"), out(2, 3, 5, dtype="int32", name="i")]
    tensors = [Tensor("x", (2, 3, 13), dtype), constant("k", 5), *outputs]
    check(Operator("TOPK_V2", ["x", "k"], ["v", "i"], "TopKV2Options"), *tensors)


def test_gather_nd_and_scatter_nd() -> None:
    indices = constant("i", [[[0, 1], [2, 0]], [[1, 3], [2, 3]]])
    check(Operator("GATHER_ND", ["x", "i"], ["y"]), Tensor("x", (3, 5, 7)), indices, out(2, 2, 7))
    indices = constant("i", [[0], [2], [0]])
    tensors = [indices, Tensor("x", (3, 5)), constant("s", [4, 5]), out(4, 5)]
    check(Operator("SCATTER_ND", ["i", "x", "s"], ["y"]), *tensors)


def test_broadcast_to() -> None:
    tensors = [Tensor("x", (3, 1)), constant("s", [2, 3, 5]), out(2, 3, 5)]
    check(Operator("BROADCAST_TO", ["x", "s"], ["y"], version=2), *tensors)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("adjoint", [(False, False), (True, False), (False, True), (True, True)])
def test_batch_matmul(adjoint: tuple[bool, bool], known: bool) -> None:
    left = (2, 3, 7, 5) if adjoint[0] else (2, 3, 5, 7)
    right = (11, 7) if adjoint[1] else (7, 11)
    other = weights("b", *right) if known else Tensor("b", (3, *right))
    fields = {"AdjX": adjoint[0], "AdjY": adjoint[1]}
    operator = Operator("BATCH_MATMUL", ["a", "b"], ["y"], "BatchMatMulOptions", fields)
    check(operator, Tensor("a", left), other, out(2, 3, 5, 11))


def test_space_and_batch_blocks() -> None:
    block, around = constant("b", [2, 3]), constant("p", [[1, 0], [0, 2]])
    check(
        Operator("SPACE_TO_BATCH_ND", ["x", "b", "p"], ["y"]),
        *(Tensor("x", (2, 5, 7, 3)), block, around, out(12, 3, 3, 3)),
    )
    check(
        Operator("BATCH_TO_SPACE_ND", ["x", "b", "p"], ["y"]),
        *(Tensor("x", (12, 3, 5, 3)), block, around, out(2, 5, 13, 3)),
    )


def test_normalizations() -> None:
    x, y = Tensor("x", (2, 3, 5, 7)), out(2, 3, 5, 7)
    check(Operator("L2_NORMALIZATION", ["x"], ["y"], "L2NormOptions"), x, y)
    check(Operator("LOG_SOFTMAX", ["x"], ["y"], "LogSoftmaxOptions"), x, y)
    fields = {"Radius": 2, "Bias": 1.5, "Alpha": 0.3, "Beta": 0.7}
    options = "LocalResponseNormalizationOptions"
    check(Operator("LOCAL_RESPONSE_NORMALIZATION", ["x"], ["y"], options, fields), x, y)


def test_embedding_lookup() -> None:
    tensors = [Tensor("i", (3,), "int32"), weights("w", 11, 5), out(3, 5)]
    check(Operator("EMBEDDING_LOOKUP", ["i", "w"], ["y"]), *tensors, low=0, high=10)


def test_reverses() -> None:
    x, y = Tensor("x", (3, 5, 7)), out(3, 5, 7)
    check(Operator("REVERSE_V2", ["x", "a"], ["y"], "ReverseV2Options"), x, constant("a", [1]), y)
    options, fields = "ReverseSequenceOptions", {"SeqDim": 1, "BatchDim": 0}
    lengths = constant("n", [1, 5, 3])
    check(Operator("REVERSE_SEQUENCE", ["x", "n"], ["y"], options, fields), x, lengths, y)


@pytest.mark.parametrize("padding", [SAME, VALID])
@pytest.mark.parametrize("bias", [False, True])
def test_conv_3d(padding: int, bias: bool) -> None:
    fields = {
        "Padding": padding,
        "StrideD": 1,
        "StrideH": 2,
        "StrideW": 2,
        "DilationDFactor": 1,
        "DilationHFactor": 1,
        "DilationWFactor": 1,
        "FusedActivationFunction": 1,
    }
    tensors = [Tensor("x", (2, 5, 7, 11, 3)), weights("w", 2, 3, 3, 3, 5), weights("b", 5), out(1)]
    inputs = ["x", "w", "b" if bias else None]
    check(Operator("CONV_3D", inputs, ["y"], "Conv3DOptions", fields), *tensors)


@pytest.mark.parametrize("padding", [SAME, VALID])
@pytest.mark.parametrize("stride", [(2, 2), (1, 3)])
def test_transpose_convolution_with_bias(padding: int, stride: tuple[int, int]) -> None:
    """MediaPipe's op, which LiteRT lacks, equals LiteRT's own op and an addition."""
    (down, across), rows = stride, 2 if padding == VALID else 0
    size = (5 * down + max(rows + 1 - down, 0), 7 * across + max(rows + 1 - across, 0))
    filter, bias = weights("w", 4, 3, 3, 6), weights("b", 4)
    x, y, z = Tensor("x", (2, 5, 7, 6)), out(2, *size, 4), out(2, *size, 4, name="z")
    raw = struct.pack("<3i", padding + 1, across, down)
    ours = Operator(
        "CUSTOM",
        ["x", "w", "b"],
        ["y"],
        custom_code="Convolution2DTransposeBias",
        custom_options=raw,
    )
    fields = {"Padding": padding, "StrideH": down, "StrideW": across}
    theirs = [
        Operator("TRANSPOSE_CONV", ["s", "w", "x"], ["z"], "TransposeConvOptions", fields),
        Operator("ADD", ["z", "b"], ["y"]),
    ]
    shape = constant("s", [2, *size, 4])
    array = draw(TensorType.parse("f32[2,5,7,6]"), -1, 1)
    (expected,) = litert(write([x, filter, bias, shape, y, z], theirs, ["x"], ["y"]), [array])
    graph = read_model(write([x, filter, bias, y], [ours], ["x"], ["y"])).main
    (result,) = evaluate(graph, {"x": array}).values()
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_unpooling_inverts_pooling() -> None:
    raw = struct.pack("<6i", 1, 2, 2, 2, 2, 0)
    tensors = [
        *(Tensor("x", (2, 6, 8, 3)), out(2, 3, 4, 3, name="v"), out(2, 3, 4, 3, name="i")),
        out(2, 6, 8, 3),
    ]
    operators = [
        Operator(
            "CUSTOM", ["x"], ["v", "i"], custom_code="MaxPoolingWithArgmax2D", custom_options=raw
        ),
        Operator("CUSTOM", ["v", "i"], ["y"], custom_code="MaxUnpooling2D", custom_options=raw),
    ]
    graph = read_model(write(tensors, operators, ["x"], ["i", "y"])).main
    x = draw(graph.types["x"], -1, 1)
    index, result = evaluate(graph, {"x": x}).values()
    blocks = x.reshape(2, 3, 2, 4, 2, 3)
    largest = blocks.max(axis=(2, 4), keepdims=True)
    np.testing.assert_array_equal(result, np.where(blocks == largest, blocks, 0).reshape(x.shape))
    assert index.min() >= 0.1
    assert index.max() < 3.2


@pytest.mark.parametrize("regular", [False, True])
@pytest.mark.parametrize("background", [False, True])
def test_detection(regular: bool, background: bool) -> None:
    options = {
        "max_detections": 7,
        "max_classes_per_detection": 1,
        "detections_per_class": 5,
        "use_regular_nms": regular,
        "nms_score_threshold": 0.2,
        "nms_iou_threshold": 0.4,
        "num_classes": 3,
        "y_scale": 10.0,
        "x_scale": 10.0,
        "h_scale": 5.0,
        "w_scale": 5.0,
    }
    count, classes = 29, 4 if background else 3
    anchors = constant("a", RANDOM.uniform(0.1, 0.9, (count, 4)), "float32")
    names = ["boxes", "classes", "scores", "count"]
    shapes = [(1, 7, 4), (1, 7), (1, 7), (1,)]
    outputs = [out(*shape, name=name) for name, shape in zip(names, shapes, strict=True)]
    operator = Operator(
        "CUSTOM",
        ["b", "s", "a"],
        names,
        custom_code="TFLite_Detection_PostProcess",
        custom_options=bytes(flexbuffers.Dumps(options)),
    )
    boxes, scores = Tensor("b", (1, count, 4)), Tensor("s", (1, count, classes))
    data = write([boxes, scores, anchors, *outputs], [operator], ["b", "s"], names)
    graph = read_model(data).main
    inputs = {name: draw(graph.types[name], 0, 1) for name in graph.inputs}
    expected_outputs = litert(data, list(inputs.values()))
    results = list(evaluate(graph, inputs).values())
    number = int(expected_outputs[3][0])
    assert number > 0
    np.testing.assert_array_equal(results[3], expected_outputs[3])
    for array, expected in zip(results[:3], expected_outputs[:3], strict=True):
        np.testing.assert_allclose(array[:, :number], expected[:, :number], rtol=1e-5, atol=1e-5)


def composite(decomposition: int, inner: list[Operator]) -> bytes:
    """Return two equal composites in a row, and the graph that defines them."""
    options = "StableHLOCompositeOptions"
    settings = bytes(flexbuffers.Dumps({}))
    fields = {
        "Name": "test",
        "DecompositionSubgraphIndex": decomposition,
        "CompositeAttributes": settings,
    }
    tensors = [Tensor(name, (3, 5)) for name in ("x", "m", "y")]
    outer = [
        Operator("STABLEHLO_COMPOSITE", [source], [target], options, fields)
        for source, target in (("x", "m"), ("m", "y"))
    ]
    parts = [Tensor(name, (3, 5)) for name in ("p", "q", "r")]
    graphs = [
        Subgraph(tensors, outer, ["x"], ["y"]),
        Subgraph(parts, inner, ["p"], ["r"], "inner"),
    ]
    return write_model(graphs)


def test_composite_runs_its_decomposition() -> None:
    data = composite(1, [Operator("ABS", ["p"], ["q"]), Operator("ADD", ["p", "q"], ["r"])])
    graph = read_model(data).main
    x = draw(graph.types["x"], -1, 1)
    assert [node.op for node in graph.nodes] == ["absolute", "add"] * 2
    (result,) = evaluate(graph, {"x": x}).values()
    np.testing.assert_allclose(result, litert(data, [x])[0], rtol=1e-6)


def test_rejects_invalid_composites() -> None:
    unknown = [Operator("UNIQUE", ["p"], ["r"])]
    with pytest.raises(UnsupportedError, match="inside it, UNIQUE"):
        read_model(composite(1, unknown))
    for number in (0, 7, -1):
        with pytest.raises(ModelError, match="defines it"):
            read_model(composite(number, [Operator("ABS", ["p"], ["r"])]))

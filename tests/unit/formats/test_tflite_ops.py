"""TFLite ops: one small file for each variant; the references agree with LiteRT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tflite_checks import check, draw, out, weights
from tflite_writer import Operator, Tensor, constant, write

from fourfold.backends.cpu.reference import evaluate
from fourfold.formats import read_model

pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT is not installed")
SAME, VALID = 0, 1


@pytest.mark.parametrize("activation", range(4))  # LiteRT ignores tanh here
@pytest.mark.parametrize("op", ["AddOptions", "SubOptions", "MulOptions", "DivOptions"])
def test_fused_activation(op: str, activation: int) -> None:
    tensors = [Tensor("a", (2, 3, 5)), Tensor("b", (2, 3, 5)), out(2, 3, 5)]
    fields = {"FusedActivationFunction": activation}
    name = op.removesuffix("Options").upper()
    check(Operator(name, ["a", "b"], ["y"], op, fields), *tensors, low=1, high=9)


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_concatenation(axis: int) -> None:
    tensors = [Tensor("a", (2, 3, 5)), weights("b", 2, 3, 5), out(1)]
    fields = {"Axis": axis}
    check(Operator("CONCATENATION", ["a", "b"], ["y"], "ConcatenationOptions", fields), *tensors)


@pytest.mark.parametrize(
    "op",
    [
        *("ABS", "ELU", "EXP", "FLOOR", "HARD_SWISH", "LOG", "LOGISTIC", "NEG"),
        *("RELU", "RELU6", "RELU_N1_TO_1", "RSQRT", "SQRT", "SQUARE", "TANH"),
    ],
)
def test_unary(op: str) -> None:
    low = 0.1 if op in ("LOG", "RSQRT", "SQRT") else -8
    check(Operator(op, ["x"], ["y"]), Tensor("x", (2, 3, 7)), out(2, 3, 7), low=low, high=8)


@pytest.mark.parametrize("op", ["MAXIMUM", "MINIMUM", "POW", "SQUARED_DIFFERENCE", "PRELU"])
def test_binary(op: str) -> None:
    tensors = [Tensor("a", (2, 3, 5, 7)), weights("b", 1, 1, 7), out(2, 3, 5, 7)]
    check(Operator(op, ["a", "b"], ["y"]), *tensors, low=0.1, high=4)


def test_logical_and() -> None:
    tensors = [Tensor("a", (3, 5), "bool"), Tensor("b", (3, 5), "bool"), out(3, 5, dtype="bool")]
    check(Operator("LOGICAL_AND", ["a", "b"], ["y"]), *tensors)


@pytest.mark.parametrize("approximate", [False, True])
def test_gelu(approximate: bool) -> None:
    operator = Operator("GELU", ["x"], ["y"], "GeluOptions", {"Approximate": approximate})
    check(operator, Tensor("x", (3, 7)), out(3, 7))


def test_leaky_relu_and_cast() -> None:
    operator = Operator("LEAKY_RELU", ["x"], ["y"], "LeakyReluOptions", {"Alpha": 0.3})
    check(operator, Tensor("x", (3, 7)), out(3, 7))
    operator = Operator("CAST", ["x"], ["y"], "CastOptions", {"InDataType": 0, "OutDataType": 2})
    check(operator, Tensor("x", (3, 7)), out(3, 7, dtype="int32"), low=-9, high=9)


@pytest.mark.parametrize("padding", [SAME, VALID])
@pytest.mark.parametrize("stride", [(1, 1), (2, 3)])
@pytest.mark.parametrize("dilation", [(1, 1), (2, 2)])
def test_convolutions(padding: int, stride: tuple[int, int], dilation: tuple[int, int]) -> None:
    fields = {
        "Padding": padding,
        "StrideH": stride[0],
        "StrideW": stride[1],
        "DilationHFactor": dilation[0],
        "DilationWFactor": dilation[1],
        "FusedActivationFunction": 3,
    }
    tensors = [Tensor("x", (2, 11, 13, 3)), weights("w", 5, 3, 2, 3), weights("b", 5), out(1)]
    check(Operator("CONV_2D", ["x", "w", "b"], ["y"], "Conv2DOptions", fields), *tensors)
    fields["DepthMultiplier"] = 2
    tensors[1:3] = [weights("w", 1, 3, 2, 6), weights("b", 6)]
    operator = Operator(
        "DEPTHWISE_CONV_2D", ["x", "w", "b"], ["y"], "DepthwiseConv2DOptions", fields
    )
    check(operator, *tensors)


@pytest.mark.parametrize("padding", [SAME, VALID])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_transpose_conv(padding: int, stride: int) -> None:
    size = 5 * stride + (0 if padding == SAME else 3 - min(stride, 3))
    fields = {"Padding": padding, "StrideH": stride, "StrideW": stride}
    shape = constant("shape", [2, size, size, 4])
    tensors = [shape, weights("w", 4, 3, 3, 3), Tensor("x", (2, 5, 5, 3)), weights("b", 4), out(1)]
    operator = Operator(
        "TRANSPOSE_CONV", ["shape", "w", "x", "b"], ["y"], "TransposeConvOptions", fields
    )
    check(operator, *tensors)


@pytest.mark.parametrize("padding", [SAME, VALID])
@pytest.mark.parametrize("op", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
def test_pools(op: str, padding: int) -> None:
    fields = {
        "Padding": padding,
        "StrideH": 2,
        "StrideW": 3,
        "FilterHeight": 3,
        "FilterWidth": 2,
        "FusedActivationFunction": 1,
    }
    tensors = [Tensor("x", (2, 7, 11, 5)), out(1)]
    check(Operator(op, ["x"], ["y"], "Pool2DOptions", fields), *tensors)


@pytest.mark.parametrize("corners", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("op", ["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"])
@pytest.mark.parametrize("size", [(7, 9), (3, 13), (10, 14), (1, 1)])
def test_resize(op: str, corners: tuple[bool, bool], size: tuple[int, int]) -> None:
    kind = {"RESIZE_BILINEAR": "ResizeBilinearOptions"}.get(op, "ResizeNearestNeighborOptions")
    fields = {"AlignCorners": corners[0], "HalfPixelCenters": corners[1]}
    tensors = [Tensor("x", (2, 5, 7, 3)), constant("size", size), out(2, *size, 3)]
    check(Operator(op, ["x", "size"], ["y"], kind, fields), *tensors)


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("axes", [[1, 2], [-1], [0, 3], [1, -3]])
@pytest.mark.parametrize("op", ["MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"])
def test_reduce(op: str, axes: list[int], keep: bool) -> None:
    tensors = [Tensor("x", (2, 5, 7, 3)), constant("axes", axes), out(1)]
    check(Operator(op, ["x", "axes"], ["y"], "ReducerOptions", {"KeepDims": keep}), *tensors)


def test_softmax_and_arg_max() -> None:
    tensors = [Tensor("x", (3, 11)), out(3, 11)]
    check(Operator("SOFTMAX", ["x"], ["y"], "SoftmaxOptions", {"Beta": 0.7}), *tensors)
    fields = {"OutputType": 4}
    tensors = [Tensor("x", (3, 11)), constant("axis", -1), out(3, dtype="int64")]
    check(Operator("ARG_MAX", ["x", "axis"], ["y"], "ArgMaxOptions", fields), *tensors)


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_fully_connected(keep: bool, bias: bool) -> None:
    fields = {"KeepNumDims": keep, "FusedActivationFunction": 1}
    tensors = [Tensor("x", (2, 3, 5)), weights("w", 7, 5), weights("b", 7), out(1)]
    inputs = ["x", "w", "b" if bias else None]
    check(Operator("FULLY_CONNECTED", inputs, ["y"], "FullyConnectedOptions", fields), *tensors)


def test_lstm() -> None:
    tensors = [
        Tensor("x", (2, 3)),
        Tensor("h", (2, 5)),
        weights("w", 20, 8),
        weights("b", 20),
        Tensor("c", (2, 5)),
        *(Tensor(name, shape) for name, shape in _LSTM_OUTPUTS.items()),
    ]
    operator = Operator(
        "LSTM", ["x", "h", "w", "b", "c"], list(_LSTM_OUTPUTS), "LSTMOptions", {"KernelType": 1}
    )
    data = write(tensors, [operator], ["x", "h", "c"], ["h1", "c1"])
    graph = read_model(data).main
    x, h, c = (draw(graph.types[name], -2, 2) for name in "xhc")
    new_h, new_c = evaluate(graph, {"x": x, "h": h, "c": c}).values()
    gates = np.concatenate([x, h], 1) @ graph.constants["w"].T + graph.constants["b"]
    i, g, f, o = np.split(gates, 4, 1)
    state = _sigmoid(i) * np.tanh(g) + _sigmoid(f) * c
    np.testing.assert_allclose(new_c, state, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(new_h, _sigmoid(o) * np.tanh(state), rtol=1e-5, atol=1e-6)


_LSTM_OUTPUTS = {"h1": (2, 5), "c1": (2, 5), "joined": (2, 8), "gates": (2, 20)}


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


MOVES = [
    (Operator("PAD", ["x", "p"], ["y"]), [constant("p", [[0, 0], [1, 2], [3, 0], [0, 1]])]),
    (
        Operator("PADV2", ["x", "p", "v"], ["y"]),
        [constant("p", [[0, 1], [1, 2], [0, 0], [2, 1]]), constant("v", 2.5, "float32")],
    ),
    (
        Operator("MIRROR_PAD", ["x", "p"], ["y"], "MirrorPadOptions", {"Mode": 0}),
        [constant("p", [[0, 0], [2, 1], [1, 3], [0, 0]])],
    ),
    (
        Operator("MIRROR_PAD", ["x", "p"], ["y"], "MirrorPadOptions", {"Mode": 1}),
        [constant("p", [[0, 0], [3, 1], [1, 3], [2, 0]])],
    ),
    (Operator("TRANSPOSE", ["x", "p"], ["y"]), [constant("p", [0, 3, 1, 2])]),
    (Operator("TILE", ["x", "m"], ["y"]), [constant("m", [1, 2, 1, 3])]),
    (
        Operator("SLICE", ["x", "b", "s"], ["y"]),
        [constant("b", [0, 1, 2, 0]), constant("s", [-1, 2, -1, 3])],
    ),
    (
        Operator("GATHER", ["x", "i"], ["y"], "GatherOptions", {"Axis": -1}),
        [constant("i", [[2, 0], [3, 1]])],
    ),
    (
        Operator("GATHER", ["x", "i"], ["y"], "GatherOptions", {"Axis": 2, "BatchDims": 1}),
        [constant("i", [[2, 0, 3], [4, 1, 1]])],
    ),
    (Operator("SPACE_TO_DEPTH", ["x"], ["y"], "SpaceToDepthOptions", {"BlockSize": 1}), []),
    (Operator("DEPTH_TO_SPACE", ["x"], ["y"], "DepthToSpaceOptions", {"BlockSize": 2}), []),
    (Operator("RESHAPE", ["x", "s"], ["y"]), [constant("s", [2, -1, 10])]),
    (Operator("RESHAPE", ["x"], ["y"], "ReshapeOptions", {"NewShape": (-1, 4)}), []),
    (Operator("EXPAND_DIMS", ["x", "a"], ["y"]), [constant("a", -2)]),
    (Operator("PACK", ["x", "x"], ["y"], "PackOptions", {"Axis": 1, "ValuesCount": 2}), []),
    (Operator("SUM", ["x", "a"], ["y"]), [constant("a", np.zeros(0, "int32"))]),
]


@pytest.mark.parametrize(("operator", "constants"), MOVES, ids=lambda item: getattr(item, "op", ""))
def test_data_movement(operator: Operator, constants: list[Tensor]) -> None:
    check(operator, Tensor("x", (2, 3, 5, 4)), *constants, out(2, 2, 3, 3))


@pytest.mark.parametrize("dims", [(), (1,), (0, -2)])
def test_squeeze(dims: tuple[int, ...]) -> None:
    operator = Operator("SQUEEZE", ["x"], ["y"], "SqueezeOptions", {"SqueezeDims": dims})
    check(operator, Tensor("x", (1, 1, 5, 1, 3)), out(1))


def test_splits() -> None:
    names = ["y", "z", "u"]
    outputs = [Tensor(name, (1,)) for name in names]
    check(
        Operator("SPLIT", ["a", "x"], names, "SplitOptions", {"NumSplits": 3}),
        constant("a", -1),
        Tensor("x", (2, 5, 9)),
        *outputs,
    )
    check(
        Operator("SPLIT_V", ["x", "s", "a"], names, "SplitVOptions", {"NumSplits": 3}),
        Tensor("x", (2, 7, 9)),
        constant("s", [1, -1, 4]),
        constant("a", 1),
        *outputs,
    )
    check(
        Operator("UNPACK", ["x"], names, "UnpackOptions", {"Axis": 1, "Num": 3}),
        Tensor("x", (2, 3, 9)),
        *outputs,
    )


SLICES: list[tuple[list[int], list[int], list[int], dict[str, Any]]] = [
    ([0, 1, 2, 0], [2, 5, 7, 3], [1, 2, 3, 1], {}),
    ([0, -1, 4, 2], [2, -4, 1, -9], [1, -1, -2, -1], {}),
    ([1, 3, 0, 0], [0, 9, 2, 9], [1, 1, 1, 1], {"BeginMask": 0b0101, "EndMask": 0b1001}),
    ([0, 1, 0, -1], [1, 2, 7, 3], [1, 1, 1, 1], {"ShrinkAxisMask": 0b1010}),
    ([1, 0, 1], [2, 0, 2], [1, 1, 1], {"EllipsisMask": 0b010}),
    ([1, 0, 0, 1], [2, 0, 1, 2], [1, 1, 1, 1], {"EllipsisMask": 0b0010, "NewAxisMask": 0b0100}),
    ([0, 0, 1], [0, 2, 3], [1, 1, 1], {"NewAxisMask": 0b001}),
    ([0, 1, 2, 0], [1, 3, 2, 3], [1, 1, 1, 1], {"Offset": True}),
    ([1], [2], [1], {"ShrinkAxisMask": 1}),
    ([-9, -9], [9, 9], [1, 2], {}),
    ([1, 1], [2, 3], [1, 1], {"EndMask": 2, "BeginMask": 1, "ShrinkAxisMask": 1}),
]


@pytest.mark.parametrize(("begin", "end", "strides", "fields"), SLICES)
def test_strided_slice(
    begin: list[int], end: list[int], strides: list[int], fields: dict[str, Any]
) -> None:
    tensors = [
        Tensor("x", (2, 5, 7, 3)),
        *(constant(n, v) for n, v in (("b", begin), ("e", end), ("s", strides))),
        out(1),
    ]
    inputs = ["x", "b", "e", "s"]
    check(Operator("STRIDED_SLICE", inputs, ["y"], "StridedSliceOptions", fields), *tensors)

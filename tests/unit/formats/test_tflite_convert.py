"""Conversion of TFLite operators to nodes: folding, weights, activations, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from tflite_writer import Level, Operator, Sparsity, Tensor, constant, write

from fourfold.errors import UnsupportedError
from fourfold.formats import ReadOptions, formats, read_model
from fourfold.graph import Graph
from fourfold.types import Quantization

CONV = {"StrideH": 1, "StrideW": 1, "FusedActivationFunction": 4}


def nodes(graph: Graph) -> list[str]:
    return [str(node) for node in graph.nodes]


def test_fused_activation_becomes_a_node() -> None:
    tensors = [Tensor("x", (2,)), Tensor("y", (2,))]
    add = Operator("ADD", ["x", "x"], ["y"], "AddOptions", {"FusedActivationFunction": 4})
    graph = read_model(write(tensors, [add], ["x"], ["y"])).main
    assert nodes(graph) == ["y/pre = add(x, x)", "y = tanh(y/pre)"]
    assert {node.name for node in graph.nodes} == {"y"}


def test_rejects_sign_bit_activation() -> None:
    tensors = [Tensor("x", (2,)), Tensor("y", (2,))]
    add = Operator("ADD", ["x", "x"], ["y"], "AddOptions", {"FusedActivationFunction": 5})
    with pytest.raises(UnsupportedError, match="activation number 5"):
        read_model(write(tensors, [add], ["x"], ["y"]))


def test_shape_chain_is_folded() -> None:
    slices = [constant(n, v) for n, v in (("b", [0]), ("e", [1]), ("s", [1]))]
    tensors = [
        Tensor("x", (3, 2, 5)),
        Tensor("shape", (3,), "int32"),
        *slices,
        Tensor("batch", (), "int32"),
        constant("ten", 10),
        Tensor("target", (2,), "int32"),
        Tensor("y", (3, 10)),
    ]
    fields = {"ShrinkAxisMask": 1}
    operators = [
        Operator("SHAPE", ["x"], ["shape"], "ShapeOptions", {"OutType": 2}),
        Operator(
            "STRIDED_SLICE", ["shape", "b", "e", "s"], ["batch"], "StridedSliceOptions", fields
        ),
        Operator("PACK", ["batch", "ten"], ["target"], "PackOptions", {"ValuesCount": 2}),
        Operator("RESHAPE", ["x", "target"], ["y"]),
    ]
    data = write(tensors, operators, ["x"], ["y"])
    assert nodes(read_model(data).main) == ["y = reshape(x; shape=(3, 10))"]
    seven = read_model(data, ReadOptions({"x": (7, 2, 5)}))
    assert nodes(seven.main) == ["y = reshape(x; shape=(7, 10))"]


def test_range_fill_and_zeros_are_folded() -> None:
    tensors = [
        Tensor("x", (4,)),
        *(constant(n, v, "float32") for n, v in (("start", 1), ("limit", 9), ("step", 2))),
        Tensor("r", (4,)),
        constant("size", [4]),
        constant("half", 0.5, "float32"),
        Tensor("f", (4,)),
        Tensor("z", (4,)),
        *(Tensor(name, (4,)) for name in ("u", "v", "y")),
    ]
    operators = [
        Operator("RANGE", ["start", "limit", "step"], ["r"]),
        Operator("FILL", ["size", "half"], ["f"]),
        Operator("ZEROS_LIKE", ["x"], ["z"]),
        Operator("ADD", ["r", "f"], ["u"]),
        Operator("ADD", ["u", "z"], ["v"]),
        Operator("ADD", ["x", "v"], ["y"]),
    ]
    graph = read_model(write(tensors, operators, ["x"], ["y"])).main
    assert nodes(graph) == ["y = add(x, v)"]
    assert graph.constants["v"].tolist() == [1.5, 3.5, 5.5, 7.5]


@pytest.mark.parametrize("per_channel", [False, True])
def test_dynamic_range_weights_become_float(per_channel: bool) -> None:
    stored = np.arange(-6, 6, dtype=np.int8).reshape(3, 4)
    scale = (0.5, 0.25, 2.0) if per_channel else (0.5,)
    weights = Tensor("w", (3, 4), "int8", stored, scale, (0,) * len(scale), axis=0)
    tensors = [Tensor("x", (2, 4)), weights, Tensor("y", (2, 3))]
    graph = read_model(
        write(tensors, [Operator("FULLY_CONNECTED", ["x", "w"], ["y"])], ["x"], ["y"])
    ).main
    assert nodes(graph) == ["y = fully_connected(x, w/float, -)"]
    expected = stored * np.array(scale, np.float32).reshape(-1, 1)
    np.testing.assert_array_equal(graph.constants["w/float"], expected)
    assert set(graph.constants) == {"w/float"}


def test_fp16_weights_become_float() -> None:
    half = np.array([[1.5, -2.0]], np.float16)
    tensors = [
        Tensor("x", (1, 2)),
        Tensor("h", (1, 2), "float16", half),
        Tensor("d", (1, 2)),
        Tensor("u", (1, 2)),
        Tensor("y", (1, 2)),
    ]
    operators = [
        Operator("DEQUANTIZE", ["h"], ["d"]),
        Operator("ADD", ["x", "d"], ["u"]),
        Operator("MUL", ["u", "h"], ["y"]),
    ]
    graph = read_model(write(tensors, operators, ["x"], ["y"])).main
    assert nodes(graph) == ["u = add(x, d)", "y = mul(u, h/float)"]
    assert graph.constants["d"].dtype == graph.constants["h/float"].dtype == np.float32
    assert graph.constants["d"].tolist() == [[1.5, -2.0]]


def test_unpacks_four_bit_weights() -> None:
    packed = np.array([0x2F, 0x81], np.uint8)  # -1, 2, 1, -8
    weights = Tensor("w", (2, 2), "int4", packed, (0.5,), (0,))
    tensors = [Tensor("x", (1, 2)), weights, Tensor("y", (1, 2))]
    data = write(tensors, [Operator("FULLY_CONNECTED", ["x", "w"], ["y"])], ["x"], ["y"])
    assert read_model(data).main.constants["w/float"].tolist() == [[-0.5, 1.0], [0.5, -4.0]]


def test_sparse_weights_become_dense() -> None:
    dense = np.zeros((4, 4), np.float32)
    dense[0:2, 2:4] = [[1, 2], [3, 4]]
    dense[2:4, 0:2] = [[5, 6], [7, 8]]
    rows = Level(2)
    columns = Level(segments=np.array([0, 1, 2], np.int32), indices=np.array([1, 0], np.uint8))
    sparsity = Sparsity([0, 1, 2, 3], [rows, columns, Level(2), Level(2)], [0, 1])
    values = np.arange(1, 9, dtype=np.float32)
    tensors = [
        Tensor("x", (1, 4)),
        Tensor("s", (4, 4), data=values, sparsity=sparsity),
        Tensor("w", (4, 4)),
        Tensor("y", (1, 4)),
    ]
    operators = [
        Operator("DENSIFY", ["s"], ["w"]),
        Operator("FULLY_CONNECTED", ["x", "w"], ["y"]),
    ]
    graph = read_model(write(tensors, operators, ["x"], ["y"])).main
    np.testing.assert_array_equal(graph.constants["w"], dense)


def test_every_refusal_is_listed_once() -> None:
    quantised = {"scale": (0.1,), "zero_point": (3,)}
    tensors = [
        Tensor("x", (1, 4)),
        Tensor("q", (1, 4), "int8", **quantised),  # type: ignore[arg-type]
        Tensor("r", (1, 4), "int8", **quantised),  # type: ignore[arg-type]
        Tensor("u", (1, 9)),
        Tensor("y", (1, 9)),
        Tensor("z", (1, 4)),
    ]
    operators = [
        Operator("CUSTOM", ["x"], ["q"], custom_code="Yours"),
        Operator("ADD", ["q", "q"], ["r"]),
        Operator("CUSTOM", ["x"], ["u"], custom_code="Mine"),
        Operator("ADD", ["u", "x"], ["y"]),  # does not match the declared type of 'u'
        Operator("RELU", ["x"], ["z"]),
    ]
    with pytest.raises(UnsupportedError) as caught:
        read_model(write(tensors, operators, ["x"], ["r", "y", "z"]))
    assert [str(refusal) for refusal in caught.value.refusals] == [
        "CUSTOM Yours 'q': this operator is not supported",
        "CUSTOM Mine 'u': this operator is not supported",
    ]


def test_keeps_quantization() -> None:
    tensors = [Tensor("x", (4,), "uint8", scale=(0.5,), zero_point=(7,)), Tensor("y", (4,))]
    graph = read_model(write(tensors, [], ["x"], ["x"])).main
    assert graph.quantization["x"] == Quantization((0.5,), (7,))


@pytest.mark.parametrize(
    ("tensor", "operator", "reason"),
    [
        (Tensor("x", (1,), "str"), Operator("RELU", ["x"], ["y"]), "string"),
        (Tensor("x", (1,), variable=True), Operator("RELU", ["x"], ["y"]), "persists between runs"),
        (Tensor("x", (2,), "int32"), Operator("EXP", ["x"], ["y"]), "not defined for i32"),
        (Tensor("x", (2,), "int32"), Operator("RESHAPE", ["z", "x"], ["y"]), "at run time"),
    ],
)
def test_rejects_unsupported_options_with_a_reason(
    tensor: Tensor, operator: Operator, reason: str
) -> None:
    inputs = ["z"] if tensor.variable else ["x", "z"]
    data = write([tensor, Tensor("y", (1,)), Tensor("z", (1,))], [operator], inputs, ["y"])
    with pytest.raises(UnsupportedError, match=reason):
        read_model(data)


def test_operator_table_describes_every_op() -> None:
    table = formats()["tflite"].operators()
    assert {"CONV_2D", "LSTM", "STRIDED_SLICE", "SHAPE"} <= set(table)
    assert all(text.endswith(".") for text in table.values())

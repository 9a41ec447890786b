"""The type rule of every op agrees with its reference and rejects invalid inputs."""

from __future__ import annotations

import numpy as np
import pytest
from op_inputs import make_inputs

from fourfold.codegen.expression import const, name
from fourfold.errors import ModelError
from fourfold.graph import NONE, Node
from fourfold.ops.arg_max import ArgMax
from fourfold.ops.base import Alias, Case, Region, registry
from fourfold.ops.base.rules import Reduce, Resize
from fourfold.ops.base.window import Padding, Pool2d, same
from fourfold.ops.cast import Cast
from fourfold.ops.concat import Concat
from fourfold.ops.conv2d import Conv2d
from fourfold.ops.depthwise_conv2d import DepthwiseConv2d
from fourfold.ops.gather import Gather
from fourfold.ops.gelu import Gelu
from fourfold.ops.kernels.move import Block
from fourfold.ops.leaky_relu import LeakyRelu
from fourfold.ops.mirror_pad import MirrorPad
from fourfold.ops.pad import Pad
from fourfold.ops.reshape import Reshape
from fourfold.ops.slice import Slice
from fourfold.ops.softmax import Softmax
from fourfold.ops.tile import Tile
from fourfold.ops.transpose import Transpose
from fourfold.ops.transpose_conv2d import TransposeConv2d
from fourfold.types import DType, TensorType

OPS = registry()
CASES = [
    pytest.param(name, case, id=f"{name}-{number}")
    for name, op in OPS.items()
    for number, case in enumerate(op.cases)
]
DATA_MOVEMENT_OPS = [
    "depth_to_space",
    "mirror_pad",
    "pad",
    "reshape",
    "slice",
    "space_to_depth",
    "tile",
    "transpose",
]


def infer(name: str, case: Case) -> tuple[TensorType, ...]:
    types = [None if text is None else TensorType.parse(text) for text in case.inputs]
    return OPS[name].infer(case.attributes, *types)


def run_reference(name: str, attributes: object, *arrays: object) -> np.ndarray:
    inputs = [
        array if array is None or isinstance(array, np.ndarray) else np.float32(array)
        for array in arrays
    ]
    return np.asarray(OPS[name].reference(attributes, *inputs))


def image(*rows: list[float]) -> np.ndarray:
    """Return one image with one channel."""
    return np.asarray(rows, np.float32)[None, :, :, None]


def test_op_names_are_file_names() -> None:
    assert all(op.name == name for name, op in OPS.items())


@pytest.mark.parametrize(("name", "case"), CASES)
def test_type_rule_agrees_with_reference(name: str, case: Case) -> None:
    inputs = make_inputs(case)
    originals = [None if array is None else array.copy() for array in inputs]
    actual = OPS[name].reference(case.attributes, *inputs)
    results = actual if isinstance(actual, tuple) else (actual,)
    assert tuple(TensorType.of(result) for result in results) == infer(name, case)
    assert all(result.size < 20_000 for result in results)
    assert isinstance(case.attributes, OPS[name].attributes)
    assert all(number < len(inputs) for number in case.constants)
    assert all(result.dtype.kind != "f" or np.isfinite(result).all() for result in results)
    for array, before in zip(inputs, originals, strict=True):
        assert array is None or (array == before).all(), "a reference must not write its inputs"


@pytest.mark.parametrize("name", DATA_MOVEMENT_OPS)
def test_coordinate_maps_agree_with_reference(name: str) -> None:
    """Expressions fold to the input coordinates if output coordinates are constants."""
    source = __import__(f"fourfold.ops.{name}", fromlist=["source"]).source
    for case in OPS[name].cases:
        (x,) = (array for array in make_inputs(case) if array is not None)
        y = np.asarray(OPS[name].reference(case.attributes, x))
        value = getattr(case.attributes, "value", 0)
        for position in np.ndindex(y.shape):
            at = [const(number) for number in position]
            where, inside = source(case.attributes, at, TensorType.of(x), TensorType.of(y))
            if inside is not None and not inside.number:
                assert y[position] == np.asarray(value, x.dtype)
            else:
                assert y[position] == x[tuple(each.number for each in where)]


def test_unchanged_axes_keep_their_coordinate() -> None:
    at = [name(text, "int") for text in ("i", "j", "k")]
    src, dst = TensorType.parse("f32[2,3,5]"), TensorType.parse("f32[2,6,5]")
    for op, attributes in (
        ("pad", Pad((0, 1, 0), (0, 2, 0))),
        ("tile", Tile((1, 2, 1))),
        ("mirror_pad", MirrorPad((0, 2, 0), (0, 1, 0), reflect=True)),
        ("slice", Slice((0, 1, 0), (2, 2, 5), (1, 1, 1))),
        ("transpose", Transpose((0, 1, 2))),
    ):
        source = __import__(f"fourfold.ops.{op}", fromlist=["source"]).source
        coordinates, _ = source(attributes, at, src, dst)
        assert coordinates[0] is at[0], op
        assert coordinates[2] is at[2], op


REDUCE_ALL = Reduce((0,), keep_dims=False)
CONV = Conv2d()
ONE = Pool2d((1, 1), (1, 1))
INVALID_INPUTS = [
    ("relu", NONE, ["i32[3]"]),
    ("relu", NONE, []),
    ("relu", NONE, [None]),
    ("relu", NONE, ["f32[3]", "f32[3]"]),
    ("exp", NONE, ["bool[3]"]),
    ("square", NONE, ["string[3]"]),
    ("add", NONE, ["f32[3]", "f32[4]"]),
    ("add", NONE, ["f32[2,3]", "f32[2]"]),
    ("add", NONE, ["f32[3]", "i32[3]"]),
    ("add", NONE, ["bool[3]", "bool[3]"]),
    ("add", NONE, ["f32[3]"]),
    ("logical_and", NONE, ["f32[3]", "f32[3]"]),
    ("prelu", NONE, ["f32[2,3]", "f32[2]"]),
    ("power", NONE, ["i32[3]", "i32[3]"]),
    ("cast", Cast(DType.STRING), ["f32[3]"]),
    ("cast", Cast(DType.F32), ["string[3]"]),
    ("gelu", Gelu(), ["i32[3]"]),
    ("leaky_relu", LeakyRelu(0.1), ["bool[3]"]),
    ("conv2d", Conv2d(stride=(0, 1)), ["f32[1,5,5,3]", "f32[4,3,3,3]", None]),
    ("conv2d", Conv2d(stride=(1, -1)), ["f32[1,5,5,3]", "f32[4,3,3,3]", None]),
    ("conv2d", Conv2d(dilation=(0, 1)), ["f32[1,5,5,3]", "f32[4,3,3,3]", None]),
    ("conv2d", Conv2d(padding=Padding(-1, 0, 0, 0)), ["f32[1,5,5,3]", "f32[4,3,3,3]", None]),
    ("conv2d", Conv2d(dilation=(3, 1)), ["f32[1,5,5,3]", "f32[4,3,3,3]", None]),
    ("conv2d", Conv2d(groups=0), ["f32[1,5,5,3]", "f32[4,3,3,3]", None]),
    ("conv2d", Conv2d(groups=3), ["f32[1,5,5,3]", "f32[4,3,3,1]", None]),
    ("conv2d", CONV, ["f32[1,5,5,3]", "f32[4,3,3,2]", None]),
    ("conv2d", CONV, ["f32[5,5,3]", "f32[4,3,3,3]", None]),
    ("conv2d", CONV, ["f32[1,5,5,3]", "f32[4,3,3]", None]),
    ("conv2d", CONV, ["f32[1,5,5,3]", "f32[4,0,3,3]", None]),
    ("conv2d", CONV, ["f32[1,0,5,3]", "f32[4,3,3,3]", None]),
    ("conv2d", CONV, ["f32[1,2,5,3]", "f32[4,3,3,3]", None]),
    ("conv2d", CONV, ["f32[1,5,5,3]", "f32[4,3,3,3]", "f32[3]"]),
    ("conv2d", CONV, ["f32[1,5,5,3]", "f32[4,3,3,3]", "i32[4]"]),
    ("conv2d", CONV, ["f32[1,5,5,3]", "i8[4,3,3,3]", None]),
    ("conv2d", CONV, ["f32[1,5,5,3]", None]),
    ("depthwise_conv2d", DepthwiseConv2d(), ["f32[1,5,5,3]", "f32[1,3,3,6]", None]),
    ("depthwise_conv2d", DepthwiseConv2d(), ["f32[1,5,5,3]", "f32[2,3,3,3]", None]),
    ("depthwise_conv2d", DepthwiseConv2d(multiplier=0), ["f32[1,5,5,3]", "f32[1,3,3,0]", None]),
    (
        "transpose_conv2d",
        TransposeConv2d((2, 2), Padding(), (9, 9)),
        ["f32[1,3,3,2]", "f32[4,3,3,2]"],
    ),
    (
        "transpose_conv2d",
        TransposeConv2d((0, 2), Padding(), (7, 7)),
        ["f32[1,3,3,2]", "f32[4,3,3,2]"],
    ),
    (
        "transpose_conv2d",
        TransposeConv2d((2, 2), Padding(), (7, 7)),
        ["f32[1,3,3,2]", "f32[4,3,3,3]"],
    ),
    ("max_pool2d", Pool2d((0, 1), (1, 1)), ["f32[1,5,5,3]"]),
    ("max_pool2d", Pool2d((6, 1), (1, 1)), ["f32[1,5,5,3]"]),
    ("max_pool2d", ONE, ["f32[5,5,3]"]),
    ("average_pool2d", Pool2d((2, 2), (1, 1), Padding(2, 0, 0, 0)), ["f32[1,5,5,3]"]),
    ("average_pool2d", ONE, ["i32[1,5,5,3]"]),
    ("fully_connected", NONE, ["f32[2,3]", "f32[5,4]", None]),
    ("fully_connected", NONE, ["f32[]", "f32[5,1]", None]),
    ("fully_connected", NONE, ["f32[2,3]", "f32[5,3]", "f32[3]"]),
    ("fully_connected", NONE, ["f32[2,3]", "f32[5,3,1]", None]),
    ("mean", Reduce((2,), keep_dims=False), ["f32[2,3]"]),
    ("mean", Reduce((-1,), keep_dims=False), ["f32[2,3]"]),
    ("mean", Reduce((1, 0), keep_dims=False), ["f32[2,3]"]),
    ("mean", REDUCE_ALL, ["i32[3]"]),
    ("sum", Reduce((1, 1), keep_dims=False), ["f32[2,3]"]),
    ("reduce_max", REDUCE_ALL, ["f32[0]"]),
    ("reduce_min", REDUCE_ALL, ["f32[]"]),
    ("softmax", Softmax(), ["f32[]"]),
    ("arg_max", ArgMax(1), ["f32[3]"]),
    ("arg_max", ArgMax(0, DType.F32), ["f32[3]"]),
    ("concat", Concat(0), []),
    ("concat", Concat(2), ["f32[2,3]"]),
    ("concat", Concat(0), ["f32[2,3]", "f32[2,4]"]),
    ("concat", Concat(0), ["f32[2,3]", "f32[3]"]),
    ("concat", Concat(0), ["f32[2,3]", "i32[2,3]"]),
    ("concat", Concat(0), ["f32[2,3]", None]),
    ("reshape", Reshape((4, 2)), ["f32[2,3]"]),
    ("reshape", Reshape((-2, -3)), ["f32[2,3]"]),
    ("transpose", Transpose((0, 0)), ["f32[2,3]"]),
    ("transpose", Transpose((0,)), ["f32[2,3]"]),
    ("transpose", Transpose((1, 2)), ["f32[2,3]"]),
    ("pad", Pad((1,), (1,)), ["f32[2,3]"]),
    ("pad", Pad((1, -1), (1, 1)), ["f32[2,3]"]),
    ("mirror_pad", MirrorPad((3,), (0,), reflect=True), ["f32[3]"]),
    ("mirror_pad", MirrorPad((0,), (4,), reflect=False), ["f32[3]"]),
    ("mirror_pad", MirrorPad((0,), (-1,), reflect=False), ["f32[3]"]),
    ("slice", Slice((0,), (0,), (1,)), ["f32[3]"]),
    ("slice", Slice((0,), (4,), (1,)), ["f32[3]"]),
    ("slice", Slice((-1,), (1,), (1,)), ["f32[3]"]),
    ("slice", Slice((3,), (1,), (1,)), ["f32[3]"]),
    ("slice", Slice((0,), (1,), (0,)), ["f32[3]"]),
    ("slice", Slice((1,), (3,), (-1,)), ["f32[3]"]),
    ("slice", Slice((0, 0), (1, 1), (1, 1)), ["f32[3]"]),
    ("tile", Tile((0,)), ["f32[3]"]),
    ("tile", Tile((2,)), ["f32[3,3]"]),
    ("gather", Gather(1), ["f32[3]", "i32[2]"]),
    ("gather", Gather(), ["f32[3]", "f32[2]"]),
    ("gather", Gather(0, 1), ["f32[3,2]", "i32[3]"]),
    ("gather", Gather(1, 1), ["f32[3,2]", "i32[2,2]"]),
    ("depth_to_space", Block(2), ["f32[1,2,2,6]"]),
    ("depth_to_space", Block(0), ["f32[1,2,2,4]"]),
    ("space_to_depth", Block(2), ["f32[1,3,2,6]"]),
    ("space_to_depth", Block(-1), ["f32[1,3,2,6]"]),
    ("resize_bilinear", Resize((0, 3)), ["f32[1,3,3,1]"]),
    ("resize_bilinear", Resize((3, 3), True, True), ["f32[1,3,3,1]"]),
    ("resize_bilinear", Resize((3, 3)), ["f32[3,3,1]"]),
    ("resize_nearest", Resize((3, -3)), ["f32[1,3,3,1]"]),
]


@pytest.mark.parametrize(("name", "attributes", "types"), INVALID_INPUTS)
def test_type_rules_reject_invalid_inputs(
    name: str, attributes: object, types: list[str | None]
) -> None:
    with pytest.raises(ModelError, match=name):
        infer(name, Case(tuple(types), attributes))


KNOWN_VALUES = [
    ("div", NONE, (np.int32([7, -7, 7, -7, 6]), np.int32([2, 2, -2, -2, -3])), [3, -3, -3, 3, -2]),
    ("logistic", NONE, ([-1000, 0, 1000],), [0, 0.5, 1]),
    ("hard_swish", NONE, ([-4, -1, 0, 3, 5],), [0, -1 / 3, 0, 3, 5]),
    ("elu", NONE, ([-1000, 0, 2],), [-1, 0, 2]),
    ("gelu", Gelu(), ([-1, 0, 1],), [-0.15865525, 0, 0.84134475]),
    ("gelu", Gelu(approximate=True), ([-1, 0, 1],), [-0.15880801, 0, 0.84119199]),
    ("leaky_relu", LeakyRelu(0.5), ([-2, 2],), [-1, 2]),
    ("prelu", NONE, ([[-2, 2], [-4, 4]], [0.5, 3]), [[-1, 2], [-2, 4]]),
    ("relu_n1_to_1", NONE, ([-2, 0.5, 2],), [-1, 0.5, 1]),
    ("cast", Cast(DType.I32), ([-1.9, -0.5, 1.9],), [-1, 0, 1]),
    ("cast", Cast(DType.BOOL), ([-0.5, 0, 2],), [True, False, True]),
    ("softmax", Softmax(1.0), ([1000, 1000],), [0.5, 0.5]),
    ("arg_max", ArgMax(0), ([1, 3, 3],), 1),
    ("fully_connected", NONE, ([1, 2], [[3, 4], [5, 6]], [10, 20]), [21, 37]),
    ("mean", Reduce((0, 1), keep_dims=True), ([[1, 2], [3, 6]],), [[3]]),
    ("mirror_pad", MirrorPad((2,), (1,), reflect=True), ([1, 2, 3],), [3, 2, 1, 2, 3, 2]),
    ("mirror_pad", MirrorPad((2,), (1,), reflect=False), ([1, 2, 3],), [2, 1, 1, 2, 3, 3]),
    ("slice", Slice((3,), (2,), (-2,)), ([0, 1, 2, 3],), [3, 1]),
    ("gather", Gather(1, 1), ([[1, 2], [3, 4]], np.int32([[1], [0]])), [[2], [3]]),
    ("transpose", Transpose((1, 0)), ([[1, 2, 3]],), [[1], [2], [3]]),
]


@pytest.mark.parametrize(("name", "attributes", "inputs", "expected"), KNOWN_VALUES)
def test_references_return_known_values(
    name: str, attributes: object, inputs: tuple[object, ...], expected: object
) -> None:
    np.testing.assert_allclose(
        run_reference(name, attributes, *inputs), expected, rtol=2e-6, atol=1e-7
    )


def test_average_pooling_ignores_padding() -> None:
    attributes = Pool2d((2, 2), (1, 1), Padding(0, 1, 0, 1))
    y = run_reference("average_pool2d", attributes, image([1, 2], [3, 6]))
    np.testing.assert_allclose(y, image([3, 4], [4.5, 6]))


def test_convolution_slides_the_filter_unflipped() -> None:
    weights = np.float32([1, 10, 100]).reshape(1, 1, 3, 1)
    attributes = Conv2d((1, 2), padding=Padding(0, 0, 1, 1))
    y = run_reference("conv2d", attributes, image([1, 2, 3]), weights, [0.5])
    np.testing.assert_allclose(y, image([210.5, 32.5]))


def test_transposed_convolution_scatters_the_filter() -> None:
    weights = np.float32([1, 10, 100]).reshape(1, 1, 3, 1)
    attributes = TransposeConv2d((1, 2), Padding(0, 0, 0, 1), (1, 4))
    y = run_reference("transpose_conv2d", attributes, image([1, 2]), weights, None)
    np.testing.assert_allclose(y, image([1, 10, 102, 20]))


def test_depthwise_outputs_of_a_channel_are_adjacent() -> None:
    weights = np.float32([1, 10, 100, 1000]).reshape(1, 1, 1, 4)
    x = np.float32([2, 3]).reshape(1, 1, 1, 2)
    y = run_reference("depthwise_conv2d", DepthwiseConv2d(multiplier=2), x, weights, None)
    assert y.ravel().tolist() == [2, 20, 300, 3000]


@pytest.mark.parametrize(
    ("attributes", "bilinear", "nearest"),
    [
        (Resize((1, 4)), [0, 4, 8, 8], [0, 0, 8, 8]),
        (Resize((1, 4), align_corners=True), [0, 8 / 3, 16 / 3, 8], [0, 0, 8, 8]),
        (Resize((1, 4), half_pixel_centers=True), [0, 2, 6, 8], [0, 0, 8, 8]),
    ],
)
def test_resize_returns_known_values(
    attributes: Resize, bilinear: list[float], nearest: list[float]
) -> None:
    x = image([0, 8])
    np.testing.assert_allclose(
        run_reference("resize_bilinear", attributes, x), image(bilinear), rtol=1e-6
    )
    np.testing.assert_allclose(run_reference("resize_nearest", attributes, x), image(nearest))


def test_same_padding_puts_the_odd_element_last() -> None:
    assert same(224, 3, 2) == (0, 1)
    assert same(7, 3, 1) == (1, 1)
    assert same(7, 3, 1, dilation=2) == (2, 2)
    assert same(5, 1, 2) == (0, 0)


def test_views_of_concat_and_slice() -> None:
    two, five = TensorType.parse("f32[3,2]"), TensorType.parse("f32[3,5]")
    node = Node("concat", ("a", "b"), ("y",), Concat(1))
    joined = Alias("join", (Region(0, 1, 0), Region(1, 1, 2)))
    view = OPS["concat"].view
    assert view is not None
    assert view(node, (two, five), (five.with_shape(3, 7),)) == joined
    cut = OPS["slice"].view
    assert cut is not None
    node = Node("slice", ("x",), ("y",), Slice((0, 2), (3, 2), (1, 1)))
    assert cut(node, (five,), (two,)) == Alias("cut", (Region(0, 1, 2),))
    node = Node("slice", ("x",), ("y",), Slice((0, 2), (3, 2), (1, 2)))
    assert cut(node, (five,), (two,)) is None
    node = Node("slice", ("x",), ("y",), Slice((1, 2), (2, 2), (1, 1)))
    assert cut(node, (five,), (five.with_shape(2, 2),)) is None

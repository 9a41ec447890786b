"""References of newer ops return known values, and their type rules reject invalid inputs."""

from __future__ import annotations

import numpy as np
import pytest

from fourfold.errors import ModelError
from fourfold.graph import NONE
from fourfold.ops.base import registry
from fourfold.ops.base.rules import Reduce
from fourfold.ops.base.window import Padding, Pool2d
from fourfold.ops.batch_matmul import BatchMatmul
from fourfold.ops.batch_to_space import BatchToSpace
from fourfold.ops.conv3d import Conv3d
from fourfold.ops.cumsum import Cumsum
from fourfold.ops.detection import Detection
from fourfold.ops.gather_nd import GatherNd
from fourfold.ops.local_response import LocalResponse
from fourfold.ops.reverse_sequence import ReverseSequence
from fourfold.ops.scatter_nd import ScatterNd
from fourfold.ops.space_to_batch import SpaceToBatch
from fourfold.ops.top_indices import TopIndices
from fourfold.types import TensorType

ONE = Pool2d((1, 1), (1, 1))
DETECTION = Detection(5, 3, 0.1, 0.5, (1.0, 1.0, 1.0, 1.0))
INVALID_INPUTS: list[tuple[str, object, list[str | None]]] = [
    ("equal", NONE, ["f32[3]", "i32[3]"]),
    ("equal", NONE, ["string[3]", "string[3]"]),
    ("less", NONE, ["bool[3]", "bool[3]"]),
    ("less", NONE, ["f32[3]", "f32[4]"]),
    ("logical_or", NONE, ["i32[3]", "i32[3]"]),
    ("logical_not", NONE, ["f32[3]"]),
    ("select", NONE, ["f32[3]", "f32[3]", "f32[3]"]),
    ("select", NONE, ["bool[3]", "f32[3]", "i32[3]"]),
    ("select", NONE, ["bool[2]", "f32[3]", "f32[3]"]),
    ("select", NONE, ["bool[3]", "f32[3]"]),
    ("sin", NONE, ["i32[3]"]),
    ("sign", NONE, ["bool[3]"]),
    ("floor_mod", NONE, ["f32[3]", "i32[3]"]),
    ("atan2", NONE, ["i32[3]", "i32[3]"]),
    ("reduce_any", Reduce((0,), keep_dims=False), ["f32[3]"]),
    ("reduce_prod", Reduce((1,), keep_dims=False), ["f32[3]"]),
    ("cumsum", Cumsum(1), ["f32[3]"]),
    ("cumsum", Cumsum(0), ["bool[3]"]),
    ("top_indices", TopIndices(0), ["f32[3]"]),
    ("top_indices", TopIndices(4), ["f32[3]"]),
    ("top_indices", TopIndices(1), ["f32[]"]),
    ("gather_nd", GatherNd(), ["f32[3]", "i32[5,2]"]),
    ("gather_nd", GatherNd(), ["f32[3]", "i32[]"]),
    ("gather_nd", GatherNd(), ["f32[3]", "f32[5,1]"]),
    ("gather_nd", GatherNd(), ["f32[0,3]", "i32[5,1]"]),
    ("scatter_nd", ScatterNd((3,)), ["i32[2,1]", "f32[3]"]),
    ("scatter_nd", ScatterNd((3,)), ["i32[2,2]", "f32[2]"]),
    ("scatter_nd", ScatterNd((3, 0)), ["i32[2,1]", "f32[2,0]"]),
    ("scatter_nd", ScatterNd((3,)), ["i32[2,1]", "bool[2]"]),
    ("batch_matmul", BatchMatmul(), ["f32[3]", "f32[3,2]"]),
    ("batch_matmul", BatchMatmul(), ["f32[2,3]", "f32[2,3]"]),
    ("batch_matmul", BatchMatmul(transposed=True), ["f32[2,3]", "f32[3,2]"]),
    ("batch_matmul", BatchMatmul(), ["f32[2,5,3]", "f32[3,3,5]"]),
    ("batch_matmul", BatchMatmul(), ["i32[2,3]", "i32[3,2]"]),
    ("space_to_batch", SpaceToBatch((2,), (0,), (0,)), ["f32[1,3,5]"]),
    ("space_to_batch", SpaceToBatch((2,), (-1,), (0,)), ["f32[1,3,5]"]),
    ("space_to_batch", SpaceToBatch((0,), (0,), (0,)), ["f32[1,3,5]"]),
    ("space_to_batch", SpaceToBatch((1, 1), (0,), (0,)), ["f32[1,3,5]"]),
    ("batch_to_space", BatchToSpace((2,), (0,), (0,)), ["f32[3,3,5]"]),
    ("batch_to_space", BatchToSpace((2,), (3,), (3,)), ["f32[2,3,5]"]),
    ("batch_to_space", BatchToSpace((2,), (0,), (-1,)), ["f32[2,3,5]"]),
    ("l2_normalize", NONE, ["f32[]"]),
    ("log_softmax", NONE, ["f32[]"]),
    ("log_softmax", NONE, ["i32[3]"]),
    ("local_response", LocalResponse(-1), ["f32[3]"]),
    ("reverse_sequence", ReverseSequence(1, 1), ["f32[2,3]", "i32[3]"]),
    ("reverse_sequence", ReverseSequence(1, 0), ["f32[2,3]", "i32[3]"]),
    ("reverse_sequence", ReverseSequence(2, 0), ["f32[2,3]", "i32[2]"]),
    ("conv3d", Conv3d(), ["f32[1,5,5,5,3]", "f32[4,3,3,3,2]", None]),
    ("conv3d", Conv3d(), ["f32[1,2,5,5,3]", "f32[4,3,3,3,3]", None]),
    ("conv3d", Conv3d((1, 0, 1)), ["f32[1,5,5,5,3]", "f32[4,3,3,3,3]", None]),
    ("conv3d", Conv3d(), ["f32[1,5,5,3]", "f32[4,3,3,3,3]", None]),
    ("conv3d", Conv3d(), ["f32[1,5,5,5,3]", "f32[4,3,3,3,3]", "f32[3]"]),
    ("max_pool2d_index", Pool2d((6, 1), (1, 1)), ["f32[1,5,5,3]"]),
    ("max_unpool2d", ONE, ["f32[1,5,5,3]", "f32[1,5,5,1]"]),
    ("max_unpool2d", Pool2d((1, 1), (0, 1)), ["f32[1,5,5,3]", "f32[1,5,5,3]"]),
    ("max_unpool2d", Pool2d((1, 1), (1, 1), Padding(-1)), ["f32[1,5,5,3]", "f32[1,5,5,3]"]),
    ("detection", DETECTION, ["f32[1,9,4]", "f32[1,9,6]", "f32[9,4]"]),
    ("detection", DETECTION, ["f32[1,9,4]", "f32[1,9,3]", "f32[8,4]"]),
    ("detection", DETECTION, ["f32[2,9,4]", "f32[2,9,3]", "f32[9,4]"]),
    ("detection", DETECTION, ["f32[1,9,4]", "f32[1,8,3]", "f32[9,4]"]),
]


@pytest.mark.parametrize(("name", "attributes", "types"), INVALID_INPUTS)
def test_type_rules_reject_invalid_inputs(
    name: str, attributes: object, types: list[str | None]
) -> None:
    parsed = [None if text is None else TensorType.parse(text) for text in types]
    with pytest.raises(ModelError, match=name):
        registry()[name].infer(attributes, *parsed)


ROW, BLOCKS = [[[1], [2], [3]]], [[[1], [3]], [[2], [0]]]
SIGNS = (np.int32([7, -7, 7, -7, 6]), np.int32([2, 2, -2, -2, -3]))
KNOWN_VALUES: list[tuple[str, object, tuple[object, ...], object]] = [
    ("floor_div", NONE, SIGNS, [3, -4, -4, 3, -2]),
    ("floor_mod", NONE, SIGNS, [1, 1, -1, -1, 0]),
    ("floor_mod", NONE, ([5.5, -5.5], [2.0, 2.0]), [1.5, 0.5]),
    ("round", NONE, ([-1.5, -0.5, 0.5, 1.5, 2.5],), [-2, 0, 0, 2, 2]),
    ("sign", NONE, ([-3, 0, 2],), [-1, 0, 1]),
    ("relu_0_to_1", NONE, ([-1, 0.5, 2],), [0, 0.5, 1]),
    ("cumsum", Cumsum(0, exclusive=True), ([1, 2, 3],), [0, 1, 3]),
    ("cumsum", Cumsum(0, reverse=True), ([1, 2, 3],), [6, 5, 3]),
    ("top_indices", TopIndices(3), ([1, 3, 2, 3],), [1, 3, 2]),
    ("gather_nd", GatherNd(), ([[1, 2], [3, 4]], np.int32([[1, 0]])), [3]),
    ("scatter_nd", ScatterNd((3,)), (np.int32([[2], [2]]), np.float32([1, 2])), [0, 0, 3]),
    ("l2_normalize", NONE, ([3, 4],), [0.6, 0.8]),
    ("local_response", LocalResponse(1, 0.0, 1.0, 0.5), ([3, 4, 0],), [0.6, 0.8, 0]),
    ("select", NONE, (np.array([True, False]), np.float32([1, 2]), np.float32([3, 4])), [1, 4]),
    (
        "reverse_sequence",
        ReverseSequence(1, 0),
        ([[1, 2, 3], [4, 5, 6]], np.int32([2, 3])),
        [[2, 1, 3], [6, 5, 4]],
    ),
    (
        "space_to_batch",
        SpaceToBatch((2,), (0,), (1,)),
        ([[[1], [2], [3]]],),
        [[[1], [3]], [[2], [0]]],
    ),
    (
        "batch_to_space",
        BatchToSpace((2,), (0,), (1,)),
        ([[[1], [3]], [[2], [0]]],),
        [[[1], [2], [3]]],
    ),
]


@pytest.mark.parametrize(("name", "attributes", "inputs", "expected"), KNOWN_VALUES)
def test_references_return_known_values(
    name: str, attributes: object, inputs: tuple[object, ...], expected: object
) -> None:
    arrays = [x if isinstance(x, np.ndarray) else np.float32(x) for x in inputs]
    result = np.asarray(registry()[name].reference(attributes, *arrays))
    np.testing.assert_allclose(result, expected, rtol=2e-6, atol=1e-7)

"""Ops that ONNX defines: known values, and inputs that their type rules reject."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fourfold.codegen.location import Channel
from fourfold.errors import ModelError
from fourfold.graph import NONE
from fourfold.ops.arg_max import ArgMax
from fourfold.ops.average_pool import AveragePool
from fourfold.ops.base import registry
from fourfold.ops.base.window import PoolAxes
from fourfold.ops.bit_shift import BitShift
from fourfold.ops.frame import Frame
from fourfold.ops.gather_elements import GatherElements
from fourfold.ops.grid_sample import GridSample
from fourfold.ops.lp_pool import LpPool
from fourfold.ops.resize import ResizeAxes
from fourfold.ops.roi_align import RoiAlign
from fourfold.ops.scatter_elements import ScatterElements
from fourfold.ops.scatter_update import ScatterUpdate
from fourfold.processing.pixels import FrameFit
from fourfold.processing.resampling import ResizedAxis, Sampling
from fourfold.types import TensorType

SIGNS = (np.int32([7, -7, 7, -7, 6]), np.int32([2, 2, -2, -2, -3]))
ROW = [[1], [2], [3], [4]]
PAIR = [[1, 2], [3, 4]]
SQUARE = [[[[1], [2]], [[3], [4]]]]
PLACES = [[[-1], [0], [0.75], [2.25]]]
LINE = [[[1], [2], [3], [4]]]
COUNTED = np.arange(1, 25, dtype=np.uint8).reshape(1, 4, 6, 1)
CEIL = ((3,), (2,), (1,), (0,), (0,), (2,))  # the second window ends after the last element
PADDED = ((3,), (3,), (1,), (1,), (1,), (2,))
APART = ((2,), (1,), (3,), (0,), (0,), (1,))


def resized(size: int, scale: float, *sampling: str) -> ResizeAxes:
    """Return attributes that resize the first axis, as in ONNX's examples."""
    return ResizeAxes((ResizedAxis(0, size, scale),), Sampling(*sampling))


def framed(order: str, channels: int = 3, **fit: tuple[int, ...]) -> Frame:
    """Return attributes that read a part of a frame of 4 x 6 pixels."""
    known = {"box": (1, 2, 2, 2), "size": (1, 1), "offset": (0, 0), "target": (1, 1), **fit}
    read = tuple(Channel(byte, 0.0, 1.0) for byte in range(channels))
    return Frame(order, read, FrameFit(**known), fill=(5.0,) * channels)  # type: ignore[arg-type]


WRONG: list[tuple[str, object, list[str | None]]] = [
    ("erf", NONE, ["i32[3]"]),
    ("remainder", NONE, ["f32[3]", "i32[3]"]),
    ("remainder", NONE, ["bool[3]", "bool[3]"]),
    ("resize", resized(3, 3.0, "quadratic"), ["f32[1,1]"]),
    ("resize", resized(3, 3.0, "linear", "everywhere"), ["f32[1,1]"]),
    ("resize", resized(3, 3.0, "linear"), ["i32[1,1]"]),
    ("resize", resized(0, 3.0), ["f32[1,1]"]),
    ("resize", ResizeAxes((ResizedAxis(2, 3, 1.0),), Sampling()), ["f32[1,1]"]),
    ("resize", ResizeAxes((ResizedAxis(0, 3, 1.0),) * 2, Sampling()), ["f32[3,1]"]),
    ("max_pool", PoolAxes(*CEIL), ["f32[1,4,4,1]"]),
    ("max_pool", PoolAxes((1,), (0,), (1,), (0,), (0,), (4,)), ["f32[1,4,1]"]),
    ("average_pool", AveragePool((1,), (1,), (1,), (-1,), (0,), (4,)), ["f32[1,4,1]"]),
    ("average_pool", AveragePool(*CEIL), ["i32[1,4,1]"]),
    ("lp_pool", LpPool(*CEIL), ["f32[1,0,1]"]),
    ("gather_elements", GatherElements(1), ["f32[3]", "i32[3]"]),
    ("gather_elements", GatherElements(), ["f32[3,2]", "i32[3]"]),
    ("gather_elements", GatherElements(), ["f32[3,2]", "i32[1,3]"]),
    ("gather_elements", GatherElements(), ["f32[3]", "f32[3]"]),
    ("scatter_elements", ScatterElements(), ["f32[3]", "i32[2]", "f32[3]"]),
    ("scatter_elements", ScatterElements(), ["f32[3,2]", "i32[1,3]", "f32[1,3]"]),
    ("scatter_elements", ScatterElements(0, "xor"), ["f32[3]", "i32[2]", "f32[2]"]),
    ("scatter_elements", ScatterElements(), ["f32[3]", "i32[2]", "i32[2]"]),
    ("scatter_update", ScatterUpdate(), ["f32[3]", "i32[2,1]", "f32[3]"]),
    ("scatter_update", ScatterUpdate(), ["f32[3]", "i32[2,2]", "f32[2]"]),
    ("scatter_update", ScatterUpdate("xor"), ["f32[3]", "i32[2,1]", "f32[2]"]),
    ("bitwise_and", NONE, ["f32[3]", "f32[3]"]),
    ("bit_shift", BitShift(left=True), ["i64[3]", "i64[3]"]),
    ("max_pool_index", PoolAxes(*CEIL), ["f32[1,4,4,1]"]),
    ("roi_align", RoiAlign((1, 1)), ["f32[1,4,4,1]", "f32[2,3]", "i32[2]"]),
    ("roi_align", RoiAlign((1, 1)), ["f32[1,4,4,1]", "f32[2,4]", "i32[3]"]),
    ("roi_align", RoiAlign((0, 1)), ["f32[1,4,4,1]", "f32[2,4]", "i32[2]"]),
    ("frame", framed("rgb"), ["f32[1,4,6,3]"]),
    ("frame", framed("rgb"), ["u8[1,4,6,4]"]),
    ("frame", framed("gray", 2), ["u8[1,4,6,1]"]),
    ("frame", framed("nv12"), ["u8[1,5,6]"]),
    ("frame", framed("nv12"), ["u8[1,6,5]"]),
    ("frame", framed("yuv"), ["u8[1,6,6]"]),
    ("frame", replace(framed("rgb"), resize="cubic"), ["u8[1,4,6,3]"]),
    ("frame", replace(framed("nv12"), matrix="bt2020"), ["u8[1,6,6]"]),
    ("frame", framed("rgb", box=(1, 2, 4, 2)), ["u8[1,4,6,3]"]),
    ("frame", framed("rgb", box=(1, -1, 2, 2)), ["u8[1,4,6,3]"]),
    ("frame", framed("rgb", offset=(0, 1)), ["u8[1,4,6,3]"]),
    ("frame", framed("rgb", size=(2, 1)), ["u8[1,4,6,3]"]),
    ("grid_sample", GridSample(), ["f32[1,4,1]", "f32[1,4,2]"]),
    ("grid_sample", GridSample("linear", "mirror"), ["f32[1,4,1]", "f32[1,4,1]"]),
    ("grid_sample", GridSample("square"), ["f32[1,4,1]", "f32[1,4,1]"]),
    ("grid_sample", GridSample(), ["f32[2,4,1]", "f32[1,4,1]"]),
]
KNOWN: list[tuple[str, object, tuple[object, ...], object]] = [
    ("erf", NONE, ([-9, -0.5, 0, 0.5],), [-1, -0.5204999, 0, 0.5204999]),
    ("remainder", NONE, SIGNS, [1, -1, 1, -1, 0]),
    ("remainder", NONE, ([5.5, -5.5], [2.0, 2.0]), [1.5, -1.5]),
    ("bitwise_and", NONE, (np.int32([12, -1]), np.int32([10, 7])), [8, 7]),
    ("bitwise_or", NONE, (np.int32([12, -1]), np.int32([10, 7])), [14, -1]),
    ("bitwise_xor", NONE, (np.int32([12, -1]), np.int32([10, 7])), [6, -8]),
    ("bit_shift", BitShift(left=True), (np.int8([3, 64, -1]), np.int8([1, 1, 8])), [6, -128, 0]),
    ("bit_shift", BitShift(left=False), (np.int8([-8, 4, -9]), np.int8([1, -1, 9])), [-4, 0, -1]),
    ("arg_max", ArgMax(0, last=True), ([1, 3, 3, 2],), 2),
    ("arg_max", ArgMax(1, keep_dims=True, last=True), ([[3, 1, 3], [2, 5, 1]],), [[2], [1]]),
    ("resize", resized(6, 3.0), ([[1], [2]],), [[1], [1], [1], [2], [2], [2]]),
    ("resize", resized(2, 0.6), (ROW,), [[1], [3]]),
    ("resize", resized(4, 2.0, "linear"), ([[1], [2]],), [[1], [1.25], [1.75], [2]]),
    ("resize", resized(2, 0.6, "linear"), (ROW,), [[4 / 3], [3]]),
    ("resize", resized(2, 0.6, "linear", "align_corners"), (ROW,), [[1], [22 / 7]]),
    ("resize", resized(3, 0.8, "cubic"), (ROW,), [[1.09423828], [2.40429688], [3.70556641]]),
    (
        "resize",
        ResizeAxes(
            (ResizedAxis(0, 3, 0.75, 0.5, 1.5),), Sampling("linear", "tf_crop_and_resize"), 9.0
        ),
        (ROW,),
        [[2.5], [4], [9]],
    ),
    ("max_pool", PoolAxes(*CEIL), (LINE,), [[[3], [4]]]),
    ("grid_sample", GridSample(), (LINE, PLACES), [[[0.5], [2.5], [4], [0]]]),
    ("grid_sample", GridSample("linear", "border"), (LINE, PLACES), [[[1], [2.5], [4], [4]]]),
    ("grid_sample", GridSample("linear", "reflection"), (LINE, PLACES), [[[1], [2.5], [4], [2]]]),
    ("grid_sample", GridSample("nearest", "zeros", True), (LINE, PLACES), [[[1], [3], [4], [0]]]),
    ("grid_sample", GridSample("cubic"), (LINE, [[[0.5]]]), [[[3.96875]]]),
    ("gather_elements", GatherElements(1), (PAIR, np.int64([[-1], [0]])), [[2], [3]]),
    ("gather_elements", GatherElements(), (PAIR, np.int64([[-1, 0]])), [[3, 2]]),
    ("scatter_elements", ScatterElements(1), (PAIR, np.int64([[-1]]), [[9]]), [[1, 9], [3, 4]]),
    (
        "scatter_elements",
        ScatterElements(1, "add"),
        (PAIR, np.int64([[1, 1]]), np.float32([[5, 6]])),
        [[1, 13], [3, 4]],
    ),
    ("scatter_update", ScatterUpdate(), (PAIR, np.int64([[-1]]), [[8, 9]]), [[1, 2], [8, 9]]),
    ("scatter_update", ScatterUpdate("mul"), (PAIR, np.int64([[0, -1]]), [9]), [[1, 18], [3, 4]]),
    ("frame", framed("gray", 1), (COUNTED,), [[[[12.5]]]]),
    ("frame", replace(framed("gray", 1), resize="nearest"), (COUNTED,), [[[[16]]]]),
    ("frame", framed("gray", 1, target=(1, 2), offset=(0, 1)), (COUNTED,), [[[[5], [12.5]]]]),
    ("frame", framed("nv12"), (np.full((1, 6, 6), 128, np.uint8),), [[[[112 * 255 / 219] * 3]]]),
    ("max_pool", PoolAxes(*APART), (LINE,), [[[4]]]),
    ("max_pool_index", PoolAxes(*CEIL), (LINE,), [[[2], [3]]]),
    ("max_pool_index", PoolAxes(*CEIL), ([[[5], [5], [1], [-np.inf]]],), [[[0], [2]]]),
    ("max_pool_index", PoolAxes(*APART), ([[[-np.inf]] * 4],), [[[0]]]),
    ("roi_align", RoiAlign((1, 2), 1), (SQUARE, [[0, 0, 2, 2]], np.int32([0])), [[[[2], [3]]]]),
    ("roi_align", RoiAlign((1, 1), largest=True), (SQUARE, [[0] * 4], np.int32([0])), [[[[0]]]]),
    ("average_pool", AveragePool(*CEIL), (LINE,), [[[2], [3.5]]]),
    ("average_pool", AveragePool(*CEIL, counts_padding=True), (LINE,), [[[2], [3.5]]]),
    ("average_pool", AveragePool(*PADDED), (LINE,), [[[1.5], [3.5]]]),
    ("average_pool", AveragePool(*PADDED, counts_padding=True), (LINE,), [[[1], [7 / 3]]]),
    ("average_pool", AveragePool(*APART), (LINE,), [[[2.5]]]),
    ("lp_pool", LpPool(*CEIL, p=1), (LINE,), [[[6], [7]]]),
    ("lp_pool", LpPool(*CEIL), (LINE,), [[[14**0.5], [5]]]),
    ("lp_pool", LpPool(*APART, p=3), (LINE,), [[[65 ** (1 / 3)]]]),
]


@pytest.mark.parametrize(("name", "attributes", "types"), WRONG)
def test_wrong_inputs_are_rejected(name: str, attributes: object, types: list[str | None]) -> None:
    parsed = [None if text is None else TensorType.parse(text) for text in types]
    with pytest.raises(ModelError, match=name):
        registry()[name].infer(attributes, *parsed)


@pytest.mark.parametrize(("name", "attributes", "inputs", "expected"), KNOWN)
def test_known_values(
    name: str, attributes: object, inputs: tuple[object, ...], expected: object
) -> None:
    arrays = [x if isinstance(x, np.ndarray) else np.float32(x) for x in inputs]
    found = np.asarray(registry()[name].reference(attributes, *arrays))
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-7)

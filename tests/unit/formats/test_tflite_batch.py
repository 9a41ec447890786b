"""A batch runs image by image; an operator that mixes images is named in the error."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from runtimes import needs_litert
from stateful_models import InStep
from tflite_writer import Operator, Tensor, constant, write

import fourfold
from fourfold.backends.cpu.litert.interpreter import runtime
from fourfold.backends.cpu.reference import evaluate
from fourfold.device import DeviceInfo
from fourfold.errors import InputError
from fourfold.formats import ReadOptions, read_model

IMAGE = (1, 5, 7, 6)
X, BATCH = Tensor("x", IMAGE), 3


def make_file(operators: Sequence[Operator], *tensors: Tensor, x: Tensor = X) -> bytes:
    return write([x, *tensors], operators, ["x"], operators[-1].outputs)


def detector_heads() -> bytes:
    """Return two detector heads concatenated as [1, boxes, 3]; both use one shape constant."""
    operators = [
        Operator("RESHAPE", ["x", "rows"], ["a"]),
        Operator("STRIDED_SLICE", ["x", "zero", "end", "one"], ["left"], "StridedSliceOptions"),
        Operator("RESHAPE", ["left", "rows"], ["b"]),
        Operator("CONCATENATION", ["a", "b"], ["y"], "ConcatenationOptions", {"Axis": 1}),
    ]
    numbers = {"rows": [1, -1, 3], "zero": [0] * 4, "end": [1, 5, 3, 6], "one": [1] * 4}
    shapes = {"a": (1, 70, 3), "left": (1, 5, 3, 6), "b": (1, 30, 3), "y": (1, 100, 3)}
    tensors = [Tensor(name, shape) for name, shape in shapes.items()]
    return make_file(operators, *(constant(name, data) for name, data in numbers.items()), *tensors)


def classifier_tail() -> bytes:
    """Return a classifier's tail: reshape to [1, 6], slice, softmax. LiteRT rejects such
    a slice.
    """
    operators = [
        Operator("MEAN", ["x", "axes"], ["m"], "ReducerOptions", {"KeepDims": True}),
        Operator("RESHAPE", ["m", "shape"], ["flat"]),
        Operator("SLICE", ["flat", "begin", "size"], ["cut"]),
        Operator("SOFTMAX", ["cut"], ["y"], "SoftmaxOptions", {"Beta": 1.0}),
    ]
    numbers = {"axes": [1, 2], "shape": [1, 6], "begin": [0, 1], "size": [1, 5]}
    shapes = {"m": (1, 1, 1, 6), "flat": (1, 6), "cut": (1, 5), "y": (1, 5)}
    tensors = [Tensor(name, shape) for name, shape in shapes.items()]
    return make_file(operators, *(constant(name, data) for name, data in numbers.items()), *tensors)


def channel_shuffle() -> bytes:
    """Return a shuffle of two channel groups, with the batch on an inner axis in between."""
    operators = [
        Operator("RESHAPE", ["x", "apart"], ["a"]),
        Operator("TRANSPOSE", ["a", "turn"], ["b"]),
        Operator("RESHAPE", ["b", "split"], ["c"]),
        Operator("GATHER", ["c", "index"], ["y"], "GatherOptions"),
    ]
    numbers = {"apart": [35, 2, 3], "turn": [1, 0, 2], "split": [2, -1, 7, 3], "index": 1}
    shapes = {"a": (35, 2, 3), "b": (2, 35, 3), "c": (2, 5, 7, 3), "y": (5, 7, 3)}
    tensors = [Tensor(name, shape) for name, shape in shapes.items()]
    return make_file(operators, *(constant(name, data) for name, data in numbers.items()), *tensors)


def transposed_convolution() -> bytes:
    """Return a transposed convolution whose output size is one less than twice its input."""
    weights = constant("w", np.linspace(-1, 1, 4 * 3 * 3 * 6).reshape(4, 3, 3, 6), "float32")
    shape, y = constant("shape", [1, 9, 13, 4]), Tensor("y", (1, 9, 13, 4))
    fields = {"StrideW": 2, "StrideH": 2, "Padding": 0}
    operator = Operator(
        "TRANSPOSE_CONV", ["shape", "w", "x"], ["y"], "TransposeConvOptions", fields
    )
    return make_file([operator], shape, weights, y)


def table_lookup() -> bytes:
    """Return a lookup of one table row for each input number."""
    table = constant("table", np.linspace(-1, 1, 35).reshape(7, 5), "float32")
    operators = [
        Operator("MEAN", ["x", "axes"], ["m"], "ReducerOptions"),
        Operator("CAST", ["m"], ["i"]),
        Operator("GATHER", ["table", "i"], ["y"], "GatherOptions"),
    ]
    tensors = [Tensor("m", (1, 6)), Tensor("i", (1, 6), "int32"), Tensor("y", (1, 6, 5))]
    return make_file(operators, constant("axes", [1, 2]), table, *tensors)


MODELS = {
    "heads": detector_heads,
    "flat": classifier_tail,
    "shuffled": channel_shuffle,
    "grown": transposed_convolution,
    "looked up": table_lookup,
}


def images(count: int = BATCH) -> np.ndarray:
    shape = (count, *IMAGE[1:])
    return np.random.default_rng(17).uniform(-2, 2, shape).astype(np.float32)


@pytest.mark.parametrize("name", list(MODELS))
def test_batched_results_equal_single_results(name: str) -> None:
    model, batch = MODELS[name](), images()
    one, many = read_model(model).main, read_model(model, ReadOptions({"x": batch.shape})).main
    alone = [evaluate(one, {"x": image[None]})["y"] for image in batch]
    result = evaluate(many, {"x": batch})["y"]
    np.testing.assert_allclose(result, np.concatenate(alone), rtol=1e-6, atol=1e-6)


PLACES = [
    *(("device", name) for name in MODELS),
    *(pytest.param("cpu", name, marks=needs_litert) for name in MODELS if name != "flat"),
]


@pytest.mark.parametrize(("place", "name"), PLACES)
def test_device_and_cpu_agree(device: DeviceInfo, name: str, place: str) -> None:
    """Covers models that LiteRT rejects with this batch."""
    where = device if place == "device" else "cpu"
    batch = images()
    with fourfold.Session(MODELS[name](), where, cache=None) as session:
        alone = [session.run(image[None])["y"] for image in batch]
        session.resize(batch.shape)
        output = session.run(batch)["y"]
        assert output.shape == session.outputs[0].shape
    np.testing.assert_allclose(output, np.concatenate(alone), rtol=1e-5, atol=1e-5)


@needs_litert
def test_literal_shapes_match_litert(device: DeviceInfo) -> None:
    """The result is one row of boxes of all images."""
    batch = images()
    rival = InStep(runtime(), detector_heads(), batch.shape)
    with fourfold.Session(detector_heads(), device, cache=None, follow_batch=False) as session:
        session.resize(batch.shape)
        output, (expected,) = session.run(batch)["y"], rival.run(batch)
    assert output.shape == expected.shape == (1, 240, 3)
    np.testing.assert_array_equal(output, expected)


def one_reshape(target: Sequence[int], x: Tensor = X) -> bytes:
    operator = Operator("RESHAPE", ["x", "shape"], ["y"])
    return make_file([operator], constant("shape", target), Tensor("y", (1, 70, 3)), x=x)


@pytest.mark.parametrize(
    ("signature", "follow", "expected"),
    [(None, True, (3, 70, 3)), (None, False, (1, 210, 3)), ((-1, 5, 7, 6), True, (1, 210, 3))],
)
def test_files_with_open_sizes_are_read_literally(
    signature: Sequence[int] | None, follow: bool, expected: tuple[int, ...]
) -> None:
    model = one_reshape([1, -1, 3], Tensor("x", IMAGE, signature=signature))
    options = ReadOptions({"x": (BATCH, *IMAGE[1:])}, follow_batch=follow)
    graph = read_model(model, options).main
    assert graph.types["y"].shape == expected


@pytest.mark.parametrize("shape", [(1, 10, 7, 6), (2, 5, 14, 6), (3, 10, 7, 6)])
def test_another_image_size_is_not_read_as_a_batch(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="RESHAPE 'y' does not fit the requested shapes"):
        read_model(one_reshape([1, 70, 3]), ReadOptions({"x": shape}))


def mixed(operator: Operator, y: tuple[int, ...], *more: Tensor) -> bytes:
    return make_file([operator], *more, Tensor("y", y))


MIXED = {
    "MEAN": mixed(
        Operator("MEAN", ["x", "axes"], ["y"], "ReducerOptions", {"KeepDims": True}),
        IMAGE, constant("axes", [0]),
    ),
    "CONCATENATION": mixed(
        Operator("CONCATENATION", ["x", "x"], ["y"], "ConcatenationOptions", {"Axis": 0}),
        (2, 5, 7, 6),
    ),
    "GATHER": mixed(
        Operator("GATHER", ["x", "index"], ["y"], "GatherOptions"), (5, 7, 6), constant("index", 0)
    ),
    "STRIDED_SLICE": mixed(
        Operator("STRIDED_SLICE", ["x", "zero", "one", "one"], ["y"], "StridedSliceOptions",
                 {"ShrinkAxisMask": 1}),
        (5, 7, 6), constant("zero", [0]), constant("one", [1]),
    ),
    "UNPACK": mixed(Operator("UNPACK", ["x"], ["y"], "UnpackOptions", {"Num": 1}), (5, 7, 6)),
}  # fmt: skip


@pytest.mark.parametrize("op", list(MIXED))
def test_error_names_the_operator_that_mixes_images(op: str) -> None:
    assert read_model(MIXED[op]).main.types["y"]
    with pytest.raises(
        InputError, match=f"{op} 'y' does not (treat each image|fit the requested shapes)"
    ):
        read_model(MIXED[op], ReadOptions({"x": (BATCH, *IMAGE[1:])}))

"""Inputs are matched by name or position, converted within a kind of number, and checked."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tflite_writer as writer
from hypothesis import given as drawn
from hypothesis import strategies as st
from tiny_matrix import WEIGHTS, matrix, numbers

import fourfold
from fourfold.backends.cpu import litert
from fourfold.device import DeviceInfo
from fourfold.errors import InputError
from fourfold.runtime.fitting import converted, shape_error
from fourfold.runtime.inputs import match_inputs
from fourfold.runtime.tensor_info import TensorInfo
from fourfold.types import Quantization, Shape

X = numbers(1)


def info(shape: Shape = (2, 4), dtype: Any = np.float32, **more: Any) -> TensorInfo:
    return TensorInfo(more.pop("name", "x"), shape, np.dtype(dtype), **more)


def match(
    infos: Sequence[TensorInfo], inputs: object, warned: set[str] | None = None
) -> tuple[list[np.ndarray], dict[str, Shape]]:
    """Match inputs without any device memory."""
    return match_inputs(
        infos, inputs, set() if warned is None else warned, lambda info, given: None
    )


def match_arrays(inputs: object, *infos: TensorInfo) -> list[np.ndarray]:
    return match(infos or (info(),), inputs)[0]


def test_matching_arrays_are_passed_through() -> None:
    for inputs in (X, [X], (X,), {"x": X}):
        assert match_arrays(inputs)[0] is X


ROWS = [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize(
    ("inputs", "shapes", "expected"),
    [
        (ROWS, [(2, 2)], [ROWS]),  # only numbers: the single input itself
        ([ROWS], [(1, 2, 2)], [[ROWS]]),
        ([ROWS], [(2, 2)], [ROWS]),  # a list around it: inputs by position
        ([7.0], [()], [7.0]),
        ([7.0], [(1,)], [[7.0]]),
        ([np.float32(1), np.float32(2)], [(2,)], [[1, 2]]),
        ([np.array(ROWS, np.float32)], [(2, 2)], [ROWS]),  # an array in a list: inputs by position
        (ROWS, [(2,), (2,)], ROWS),  # two inputs, two lists
        ((5.0, [1.0, 2.0]), [(), (2,)], [5.0, [1.0, 2.0]]),
        (7.0, [()], [7.0]),
        ([], [], []),
        ({}, [], []),
    ],
)
def test_distinguishes_one_array_from_a_list_of_inputs(
    inputs: object, shapes: list[Shape], expected: list[Any]
) -> None:
    infos = [info(shape, name=f"x{number}") for number, shape in enumerate(shapes)]
    result = match(infos, inputs)[0]
    assert [array.tolist() for array in result] == expected


@pytest.mark.parametrize(
    ("inputs", "count", "what", "fix"),
    [
        ([X, X], 1, "2 arrays were passed for 1 inputs", "np.stack(arrays)"),
        ([], 1, "0 arrays were passed for 1 inputs", "one array"),
        (X, 2, "1 arrays were passed for 2 inputs", "a dict by name, or a list in order"),
        ({"x0": X}, 2, "input 'x1' is missing", "for each"),
        ({"x0": X, "x1": X, "xx1": X}, 2, "no input 'xx1'", "did you mean 'x1'"),
        ({"x0": X, 1: X}, 2, "no input 1", "did you mean 'x1'"),
    ],
)
def test_rejects_a_wrong_number_of_arrays(inputs: object, count: int, what: str, fix: str) -> None:
    infos = [info(name=f"x{number}") for number in range(count)]
    with pytest.raises(InputError, match=what) as caught:
        match(infos, inputs)
    assert fix in caught.value.fix


def test_rejects_scalars_for_other_shapes() -> None:
    with pytest.raises(InputError, match=r"has shape \(\), not \(2, 4\)"):
        match_arrays(np.array(1, np.float32))


@pytest.mark.parametrize(
    ("dtype", "target_dtype", "values"),
    [
        (np.float64, np.float32, [0.1, -np.inf, np.nan]),
        (np.float16, np.float32, [0.5, 2]),
        (np.float32, np.float64, [0.5, 2]),
        (np.float64, np.float16, [0.5, 2]),
        (np.int64, np.int32, [-(2**31), 2**31 - 1]),
        (np.uint8, np.int64, [0, 255]),
        (np.int64, np.uint8, [0, 255]),
        (np.uint64, np.int64, [0, 2**63 - 1]),
        (">f4", np.float32, [1, 2]),
        (">i8", np.int32, [1, 2]),
        (np.complex128, np.complex64, [1j, 2]),
    ],
)
def test_converts_dtypes_of_one_kind_and_warns_once(
    caplog: pytest.LogCaptureFixture, dtype: Any, target_dtype: Any, values: list[Any]
) -> None:
    array, warned = np.array(values, dtype), set[str]()
    expected = np.array(values, array.dtype.newbyteorder("=")).astype(target_dtype)
    with caplog.at_level(logging.WARNING, "fourfold"):
        for _ in range(3):
            (result,), _ = match([info((len(values),), target_dtype)], array, warned)
            assert result.dtype == np.dtype(target_dtype)
            np.testing.assert_array_equal(result, expected)
    assert [record.getMessage() for record in caplog.records] == [
        f"input 'x' comes as {array.dtype} and is converted to "
        f"{np.dtype(target_dtype)} in every run: "
        f"pass x.astype(np.{np.dtype(target_dtype)})"
    ]


def test_python_numbers_are_converted_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "fourfold"):
        assert match_arrays([1, 2], info((2,)))[0].dtype == np.float32
        assert match_arrays([1, 2], info((2,), np.uint8))[0].dtype == np.uint8
    assert not caplog.records


def test_converts_bfloat16_to_float(caplog: pytest.LogCaptureFixture) -> None:
    types = pytest.importorskip("ml_dtypes", reason="the package ml_dtypes is not installed")
    with caplog.at_level(logging.WARNING, "fourfold"):
        (result,) = match_arrays(X.astype(types.bfloat16))
    np.testing.assert_allclose(result, X, rtol=1e-2)
    assert "comes as bfloat16" in caplog.text
    with pytest.raises(InputError, match="is int4, not float32"):
        match_arrays(np.ones((2, 4), types.int4))


STEPS = Quantization((0.5,), (0,))


@pytest.mark.parametrize(
    ("array", "expected", "what", "fix"),
    [
        (np.uint8([1, 2]), info((2,)), "is uint8, not float32", "scaled as the model expects"),
        (np.zeros((1, 5, 5, 3), np.uint8), info((1, 5, 5, 3)), "is uint8", "fourfold.Pixels"),
        (np.float32([1, 2]), info((2,), np.int32), "is float32, not int32", "astype(np.int32)"),
        ([1.5, 2], info((2,), np.int32), "is float64, not int32", "astype(np.int32)"),
        (np.array([True, False]), info((2,), np.int64), "is bool, not int64", "astype"),
        (np.array([1j, 2]), info((2,)), "is complex128, not float32", "astype"),
        (
            np.int64([0, 2**31]),
            info((2,), np.int32),
            "some numbers are out of range for int32",
            "check",
        ),
        (
            np.int8([-1, 0]),
            info((2,), np.uint8),
            "some numbers are out of range for uint8",
            "check",
        ),
        ([0, 256], info((2,), np.uint8), "some numbers are out of range for uint8", "check"),
        (np.array([1e300, 0]), info((2,)), "some numbers are out of range for float32", "check"),
        (
            np.array([1e5, 0]),
            info((2,), np.float16),
            "some numbers are out of range for float16",
            "check",
        ),
        (np.uint8([1, 2]), info((2,), np.int8, quantization=STEPS), "not int8", "quantize"),
        (np.array(["2026-11-16"], "M8[D]"), info((1,)), "not float32", "astype"),
    ],
)
def test_rejects_other_kinds_and_values_out_of_range(
    array: Any, expected: TensorInfo, what: str, fix: str
) -> None:
    with pytest.raises(InputError, match=what) as caught:
        match_arrays(array, expected)
    assert caught.value.why
    assert fix in caught.value.fix


INTEGERS = st.sampled_from([np.int8, np.uint8, np.int16, np.uint16, np.int32, np.int64, np.uint64])


def integer_arrays(kind: Any) -> st.SearchStrategy[np.ndarray]:
    limits = np.iinfo(kind)
    numbers = st.lists(st.integers(int(limits.min), int(limits.max)), max_size=3)
    return numbers.map(lambda found: np.array(found, kind))


@drawn(array=INTEGERS.flatmap(integer_arrays), wanted=INTEGERS)
def test_integers_are_converted_exactly_or_rejected(array: np.ndarray, wanted: Any) -> None:
    try:
        result = converted(info(array.shape, wanted), array, {"x"})
    except InputError:
        assert any(int(one) not in _value_range(wanted) for one in array.flat)
    else:
        assert result.dtype == wanted
        assert result.tolist() == array.tolist()


def _value_range(kind: Any) -> range:
    return range(np.iinfo(kind).min, int(np.iinfo(kind).max) + 1)


STEPPED = st.tuples(*[st.sampled_from([slice(None), slice(None, None, -1), slice(1, 4, 2)])] * 3)


@drawn(steps=STEPPED, axes=st.permutations(range(3)), order=st.sampled_from(["C", "F"]))
def test_arrays_of_any_layout_become_contiguous(
    steps: tuple[slice, ...], axes: list[int], order: Any
) -> None:
    x = np.array(np.arange(60, dtype=np.float32).reshape(3, 4, 5), order=order)
    x = x[steps].transpose(axes)
    (result,) = match_arrays(x, info(x.shape))
    assert result.flags.c_contiguous
    np.testing.assert_array_equal(result, x)


@pytest.mark.parametrize(
    ("own", "signature", "shape", "fix"),
    [
        ((1, 8, 9, 3), (), (8, 9, 3), "pass x[None]"),
        ((1, 8, 9, 3), (-1, -1, -1, 3), (5, 7, 3), "pass x[None]"),
        ((8, 9, 3), (), (1, 8, 9, 3), "pass x[0]"),
        ((8, 9, 3), (), (6, 8, 9, 3), "pass x[0]"),
        ((1, 8, 9, 3), (), (1, 3, 8, 9), "pass x.transpose(0, 2, 3, 1)"),
        ((1, 8, 9, 3), (-1, -1, -1, 3), (4, 3, 5, 7), "pass x.transpose(0, 2, 3, 1)"),
        ((1, 3, 8, 9), (), (1, 8, 9, 3), "pass x.transpose(0, 3, 1, 2)"),
        ((1, 8, 9, 3), (), (3, 8, 9), "pass x.transpose(1, 2, 0)[None]"),
        ((1, 3, 8, 9), (), (8, 9, 3), "pass x.transpose(2, 0, 1)[None]"),
        ((8, 9, 3), (), (3, 8, 9), "pass x.transpose(1, 2, 0)"),
        ((1, 4, 8, 9, 3), (), (1, 3, 4, 8, 9), "pass x.transpose(0, 2, 3, 4, 1)"),
        ((1, 8, 9, 1), (), (1, 8, 9), "pass x[..., None]"),
        ((1, 8, 9, 1), (), (8, 9), "pass x[None, ..., None]"),
        ((1, 8, 9, 3), (), (216,), "pass x.reshape((1, 8, 9, 3))"),
        ((1, 10), (), (10, 1), "pass x.reshape((1, 10))"),
        ((1, 8, 9, 3), (), (2, 8, 9, 3), "session.resize({'x': (2, 8, 9, 3)})"),
        ((1, 8, 9, 3), (), (1, 9, 8, 3), "session.resize({'x': (1, 9, 8, 3)})"),
    ],
)
def test_shape_errors_suggest_a_fix_that_works(
    own: Shape, signature: Shape, shape: Shape, fix: str
) -> None:
    x = np.zeros(shape, np.float32)
    expected = info(own, signature=signature)
    with pytest.raises(InputError) as caught:
        match_arrays(x, expected)
    assert caught.value.what == f"input 'x' has shape {shape}, not {own}"
    assert fix in caught.value.fix
    if caught.value.fix.startswith("pass "):
        match_arrays(eval(caught.value.fix.removeprefix("pass "), {"x": x}), expected)


def test_shape_errors_suggest_permute_for_pytorch_tensors() -> None:
    tensor = SimpleNamespace(permute=None)
    error = shape_error(info((1, 8, 9, 3)), tensor, (1, 3, 8, 9))
    assert error.fix == "pass x.permute(0, 2, 3, 1)"


def integer_model() -> bytes:
    """Return a model of y = x + x with integers."""
    return writer.write(
        [writer.Tensor("x", (2, 4), "int32"), writer.Tensor("y", (2, 4), "int32")],
        [writer.Operator("ADD", ["x", "x"], ["y"], "AddOptions")],
        ["x"],
        ["y"],
    )


@pytest.fixture(params=["device", "cpu"])
def target(request: pytest.FixtureRequest, device: DeviceInfo) -> Iterator[Any]:
    if request.param == "cpu" and not litert.ENGINE.installed():
        pytest.skip("LiteRT is not installed")
    return device if request.param == "device" else "cpu"


@pytest.mark.parametrize("form", ["alone", "list", "dict"])
def test_session_converts_inputs_in_every_form(
    target: Any, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    with fourfold.Session(matrix(), target, cache=None) as session:
        for x in (X.astype(np.float64), X.astype(">f4"), X.astype(np.float16)):
            inputs = {"alone": x, "list": [x], "dict": {"x": x}}[form]
            output = session.run(inputs)["y"]
            np.testing.assert_allclose(output, x.astype(np.float32) @ WEIGHTS.T, atol=1e-6)
    messages = [record for record in caplog.records if "is converted" in record.getMessage()]
    assert len(messages) == 1


def test_session_rejects_integers_out_of_range(target: Any) -> None:
    x = np.arange(8, dtype=np.int64).reshape(2, 4)
    with fourfold.Session(integer_model(), target, cache=None) as session:
        np.testing.assert_array_equal(session.run(x)["y"], 2 * x)
        with pytest.raises(InputError, match="some numbers are out of range for int32"):
            session.run(x + 2**31)


@pytest.mark.parametrize("dtype", [">f4", np.float64])
def test_onnx_runtime_gets_converted_inputs(dtype: Any) -> None:
    onnx_writer = pytest.importorskip("onnx_writer", reason="the package onnx is not installed")
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    model = onnx_writer.small_model("Neg", {"x": [2, 4]})
    with fourfold.Session(model, "cpu", cache=None) as session:
        np.testing.assert_array_equal(session.run(X.astype(dtype))["y"], -X)
        with pytest.raises(InputError, match="masked"):
            session.run(np.ma.masked_array(X, X > 0))

"""Arrays of other libraries are read without a copy, or rejected with a fix."""

from __future__ import annotations

import array as arrays_of_python
import ctypes
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foreign_arrays import ArrayInterface, ArrayMethod, CudaArray, Dlpack, ElementsOnly, Tensor
from tiny_matrix import WEIGHTS, matrix, numbers

import fourfold
from fourfold.backends.cpu import litert
from fourfold.device import DeviceInfo
from fourfold.errors import InputError
from fourfold.runtime.arrays import as_array

X = numbers(1)
MAKERS: dict[str, Callable[[np.ndarray], Any]] = {
    "ndarray": lambda x: x,
    "__array__": ArrayMethod,
    "__array_interface__": ArrayInterface,
    "__dlpack__": Dlpack,
    "pinned": lambda x: Dlpack(x, device=3),
    "memoryview": memoryview,
    "read-only memoryview": lambda x: memoryview(x).toreadonly(),
    "ctypes": np.ctypeslib.as_ctypes,
    "matrix": lambda x: x.view(np.matrix),
    "memmap's class": lambda x: x.view(np.memmap),
    "masked nowhere": np.ma.masked_array,
}


@pytest.mark.parametrize("kind", MAKERS)
def test_array_protocols_are_read_without_a_copy(kind: str) -> None:
    x = X.copy()
    result = as_array(MAKERS[kind](x), "it")
    assert type(result) is np.ndarray
    assert np.shares_memory(result, x)
    np.testing.assert_array_equal(result, x)


@pytest.fixture(scope="module", params=["device", "cpu"])
def session(request: pytest.FixtureRequest, device: DeviceInfo) -> Iterator[fourfold.Session]:
    if request.param == "cpu" and not litert.ENGINE.installed():
        pytest.skip("LiteRT is not installed")
    where = device if request.param == "device" else "cpu"
    with fourfold.Session(matrix(), where, cache=None) as session:
        yield session


@pytest.mark.parametrize("form", ["alone", "list", "tuple", "dict"])
@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_run_accepts_an_array_alone_in_a_sequence_and_by_name(
    session: fourfold.Session, kind: str, form: str
) -> None:
    inputs = MAKERS[kind](X.copy())
    forms = {"alone": inputs, "list": [inputs], "tuple": (inputs,), "dict": {"x": inputs}}
    np.testing.assert_allclose(session.run(forms[form])["y"], X @ WEIGHTS.T, atol=1e-6)


@pytest.mark.parametrize(
    "value",
    [
        X.tolist(),
        tuple(map(tuple, X.tolist())),
        [X.tolist()[0], X[1].tolist()],
        [list(X[0]), list(X[1])],  # lists of NumPy scalars
        {"x": X.tolist()},
        {"x": [X[0], X[1]]},
        np.asfortranarray(X),
        np.repeat(X, 2, axis=1)[:, ::2],
        X[::-1][::-1],
    ],
)
def test_run_accepts_nested_lists_and_strided_arrays(session: fourfold.Session, value: Any) -> None:
    np.testing.assert_allclose(session.run(value)["y"], X @ WEIGHTS.T, atol=1e-6)


def test_run_accepts_broadcast_arrays(session: fourfold.Session) -> None:
    x = np.broadcast_to(X[0], (2, 4))
    assert x.strides[0] == 0
    np.testing.assert_allclose(session.run(x)["y"], x @ WEIGHTS.T, atol=1e-6)


def test_run_accepts_unaligned_arrays(session: fourfold.Session) -> None:
    memory = np.zeros(X.nbytes + 1, np.uint8)
    x = memory[1:].view(np.float32).reshape(X.shape)
    x[:] = X
    assert not x.flags.aligned
    np.testing.assert_allclose(session.run(x)["y"], X @ WEIGHTS.T, atol=1e-6)


def test_python_integers_are_converted_to_floats(session: fourfold.Session) -> None:
    x = [[1, 2, 3, 4], [5, 6, 7, 8]]
    np.testing.assert_allclose(session.run(x)["y"], np.array(x) @ WEIGHTS.T, rtol=1e-6)


REJECTED: dict[str, tuple[Any, str, str]] = {
    "CUDA": (CudaArray(), r"memory of a GPU \(CUDA\)", "x.copy_to_host()"),
    "CUDA by DLPack": (Dlpack(X, 2), r"memory of a GPU \(CUDA\)", "an array"),
    "Metal": (Dlpack(X, 8), r"memory of a GPU \(Metal\)", "an array"),
    "OpenCL": (Dlpack(X, 4), r"memory of a GPU \(OpenCL\)", "an array"),
    "another": (Dlpack(X, 77), "device 77 of DLPack", "an array"),
    "no way in": (ElementsOnly(), "memory NumPy cannot access", "x.get()"),
    "gradient": (Tensor("requires grad", requires_grad=True), "cannot be read", "x.detach()"),
    "elsewhere": (
        Tensor("on mps", device="mps", requires_grad=True),
        "cannot be read",
        "x.detach().cpu()",
    ),
    "bfloat16": (Tensor("BFloat16", dtype="torch.bfloat16"), "cannot be read", "x.float()"),
    "sparse": (Tensor("sparse", layout="torch.sparse_coo"), "cannot be read", "x.to_dense()"),
    "masked": (np.ma.masked_array(X, X > 0), "masked", "x.filled(value)"),
    "None": (None, "is None", "pass an array"),
    "generator": ((one for one in X), "generator, which is not an array", "list(x)"),
    "values": ({"x": X}.values(), "dict_values, which is not an array", "list(x)"),
    "path": (Path("photo.jpg"), "which is not an array", "PIL.Image.open(path)"),
    "name": ("photo.jpg", "is <U9, not float32", "PIL.Image.open(path)"),
    "ragged": ([[1.0, 2.0], [3.0]], "list that is not an array", "rows"),
    "objects": (np.array([[1, None]], object), "holds Python objects", "np.array(x, np.float32)"),
    "fields": (np.zeros((2, 4), [("a", "f4")]), r"is \[\('a', '<f4'\)\], not", "x['a']"),
    "bytes": (X.tobytes(), "is uint8, not float32", "astype(np.float32)"),
}


@pytest.mark.parametrize("kind", REJECTED)
@pytest.mark.parametrize("form", ["alone", "dict"])
def test_rejects_unreadable_arrays_with_a_fix(
    session: fourfold.Session, kind: str, form: str
) -> None:
    inputs, what, fix = REJECTED[kind]
    if inputs is None:
        form = "dict"  # None alone means that the inputs are missing
    with pytest.raises(InputError, match=what) as caught:
        session.run(inputs if form == "alone" else {"x": inputs})
    assert caught.value.why
    assert fix in caught.value.fix


def test_python_buffers_are_one_dimensional_arrays(device: DeviceInfo) -> None:
    """Their error suggests a reshape; `bytes` are read as numbers, not as text."""
    flat = X.ravel()
    one_axis = [arrays_of_python.array("f", flat), (ctypes.c_float * 8)(*flat), deque(flat)]
    with fourfold.Session(matrix(), device, cache=None) as session:
        for value in one_axis:
            with pytest.raises(InputError, match=r"has shape \(8,\)") as caught:
                session.run({"x": value})
            assert "reshape((2, 4))" in caught.value.fix
    assert as_array(b"\x00\xff", "it").tolist() == as_array(bytearray(b"\x00\xff"), "it").tolist()

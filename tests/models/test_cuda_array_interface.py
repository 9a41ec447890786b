"""Rules of `__cuda_array_interface__`: versions, strides, masks, streams, read-only arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from cuda_arrays import Interface
from onnx_writer import small_model

import fourfold
from fourfold.backends import backend_of
from fourfold.backends.cuda import binding as cu
from fourfold.backends.cuda.binding import calls
from fourfold.backends.cuda.devices import context_of
from fourfold.backends.cuda.import_memory import read_interface
from fourfold.backends.cuda.memory import OwnMemory
from fourfold.device import DeviceInfo
from fourfold.errors import InputError

X = np.random.default_rng(9).normal(size=(1, 3, 1, 5)).astype(np.float32)


@pytest.fixture
def session(cuda: DeviceInfo) -> Iterator[fourfold.Session]:
    with fourfold.Session(small_model("Neg", {"x": X.shape}), cuda, cache="memory") as opened:
        yield opened


def make_interface(session: fourfold.Session, **changes: Any) -> Interface:
    inputs = Interface(session.device, X)
    inputs.changes = changes
    return inputs


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 2},
        {"version": 2, "strides": X.strides},
        {"strides": X.strides},
        {"strides": (7, 20, 1, 4)},  # strides of axes with one element are ignored
        {"mask": None, "descr": [("", "<f4")]},
        {"stream": None},
        {"stream": 1},
        {"stream": 2},
        {"shape": list(X.shape)},
    ],
)
def test_accepts_valid_interfaces(session: fourfold.Session, changes: dict[str, Any]) -> None:
    inputs, target = make_interface(session, **changes), make_interface(session, **changes)
    results = session.run(inputs, out={"y": target})
    assert results["y"] is target
    np.testing.assert_array_equal(target.numpy(), -X)
    np.testing.assert_array_equal(inputs.numpy(), X)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": 1}, ("version 1", "2 and 3", "DLPack")),
        ({"version": 4}, ("version 4", "2 and 3", "DLPack")),
        ({"strides": (60, 20, 20, 6)}, ("not contiguous", "(60, 20, 20, 6)", "contiguous")),
        ({"strides": (60, -20, 20, 4)}, ("not contiguous", "-20", "contiguous")),
        ({"strides": (20, 4)}, ("2 strides for 4 axes", "per axis", "update")),
        ({"typestr": "<x9"}, ("'<x9'", "NumPy", "float32")),
        ({"typestr": ">f4"}, (">f4[1, 3, 1, 5]", "float32", "convert it first")),
        ({"data": 4096}, ("malformed", "unpack", "update")),
        ({"shape": "15"}, ("[1, 5]", "[1, 3, 1, 5]", "convert it first")),
        ({"stream": "own"}, ("malformed", "own", "update")),
        ({"mask": object()}, ("mask", "all elements", "fill")),
        ({"stream": 0}, ("stream 0", "of all threads or of one", "1 or 2")),
    ],
)
def test_rejects_invalid_interfaces(
    session: fourfold.Session, changes: dict[str, Any], words: tuple[str, str, str]
) -> None:
    with pytest.raises(InputError) as caught:
        session.run(make_interface(session, **changes))
    parts = (caught.value.what, caught.value.why, caught.value.fix)
    assert all(word in part for word, part in zip(words, parts, strict=True)), parts


@pytest.mark.parametrize("name", ["shape", "typestr", "data"])
def test_rejects_incomplete_interfaces(name: str) -> None:
    class Partial:
        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            interface = {"shape": (2,), "typestr": "<f4", "data": (4096, False), "version": 3}
            return {key: value for key, value in interface.items() if key != name}

    with pytest.raises(InputError, match="is incomplete") as caught:
        read_interface(Partial())
    assert caught.value.why == f"it has no {name}"


@pytest.mark.parametrize("other", [object(), np.zeros(3), 7, "text"])
def test_objects_without_an_interface_are_ignored(other: object) -> None:
    assert read_interface(other) is None


def test_arrays_that_raise_are_ignored() -> None:
    class OnTheHost:
        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            raise TypeError("this array is on the host")

    assert read_interface(OnTheHost()) is None


def test_empty_arrays_have_no_address(cuda: DeviceInfo) -> None:
    inputs = Interface(cuda, X)
    inputs.changes = {"shape": (3, 0), "data": (0, False)}
    result = backend_of(cuda).import_memory(cuda, inputs)
    assert result is not None
    assert (result.size, result.shape) == (0, (3, 0))


def test_read_only_arrays_are_inputs_only(session: fourfold.Session) -> None:
    inputs = make_interface(session)
    inputs.changes = {"data": (inputs.address, True)}
    np.testing.assert_array_equal(session.run(inputs)["y"], -X)
    with pytest.raises(InputError, match="cannot be written to"):
        session.run(X, out={"y": inputs})


@pytest.mark.parametrize("handle", [1, 2, None])
@pytest.mark.parametrize("as_output", [False, True])
def test_run_waits_for_the_stream_of_an_array(
    session: fourfold.Session, handle: int | None, as_output: bool
) -> None:
    """None means a stream created by the test. Work enqueued before the run must not overwrite a
    result.
    """
    context = context_of(session.device)
    with context:
        own = cu.Stream()
        stream = own if handle is None else cu.Stream.of(handle)
    assert stream.pointer is not None
    later = OwnMemory(session.device, X.nbytes)
    later.write(X)
    inputs = make_interface(session, stream=stream.pointer.value)
    inputs.memory.write(np.full_like(X, np.nan))
    with context:
        stream.copy(inputs.address, later.address, X.nbytes)
    if as_output:
        session.run(X, out={"y": inputs})
        with context:
            stream.finish()
        np.testing.assert_array_equal(inputs.numpy(), -X)
    else:
        np.testing.assert_array_equal(session.run(inputs)["y"], -X)
    with context:
        own.release()


def test_arrays_without_a_stream_need_no_synchronization(session: fourfold.Session) -> None:
    """An array without a stream is complete, except for work on the default stream."""
    driver: Any = calls.library()
    if isinstance(driver, calls.CDLL):
        pytest.skip("only the fake driver records calls")
    inputs = make_interface(session, stream=None)
    session.run(inputs)
    driver.names.clear()
    session.run(inputs)
    assert "cuStreamWaitEvent" not in driver.names

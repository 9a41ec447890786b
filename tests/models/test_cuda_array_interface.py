"""`__cuda_array_interface__` by its rules: versions, strides, masks, streams, read-only arrays."""

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
    with fourfold.Session(small_model("Neg", {"x": X.shape}), cuda, cache="memory") as made:
        yield made


def told(session: fourfold.Session, **changes: Any) -> Interface:
    given = Interface(session.device, X)
    given.changes = changes
    return given


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 2},
        {"version": 2, "strides": X.strides},
        {"strides": X.strides},
        {"strides": (7, 20, 1, 4)},  # those of axes of one element say nothing
        {"mask": None, "descr": [("", "<f4")]},
        {"stream": None},
        {"stream": 1},
        {"stream": 2},
        {"shape": list(X.shape)},
    ],
)
def test_what_is_told_by_the_rules(session: fourfold.Session, changes: dict[str, Any]) -> None:
    given, target = told(session, **changes), told(session, **changes)
    results = session.run(given, out={"y": target})
    assert results["y"] is target
    np.testing.assert_array_equal(target.numpy(), -X)
    np.testing.assert_array_equal(given.numpy(), X)


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
def test_what_is_told_otherwise(
    session: fourfold.Session, changes: dict[str, Any], words: tuple[str, str, str]
) -> None:
    with pytest.raises(InputError) as caught:
        session.run(told(session, **changes))
    parts = (caught.value.what, caught.value.why, caught.value.fix)
    assert all(word in part for word, part in zip(words, parts, strict=True)), parts


@pytest.mark.parametrize("name", ["shape", "typestr", "data"])
def test_what_is_not_told(name: str) -> None:
    class Partial:
        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            whole = {"shape": (2,), "typestr": "<f4", "data": (4096, False), "version": 3}
            return {key: value for key, value in whole.items() if key != name}

    with pytest.raises(InputError, match="is incomplete") as caught:
        read_interface(Partial())
    assert caught.value.why == f"it has no {name}"


@pytest.mark.parametrize("other", [object(), np.zeros(3), 7, "text"])
def test_who_tells_nothing(other: object) -> None:
    assert read_interface(other) is None


def test_a_library_that_refuses_to_tell() -> None:
    class OnTheHost:
        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            raise TypeError("this array is on the host")

    assert read_interface(OnTheHost()) is None


def test_an_empty_array_has_no_address(cuda: DeviceInfo) -> None:
    given = Interface(cuda, X)
    given.changes = {"shape": (3, 0), "data": (0, False)}
    found = backend_of(cuda).import_memory(cuda, given)
    assert found is not None
    assert (found.size, found.shape) == (0, (3, 0))


def test_a_read_only_array_is_an_input(session: fourfold.Session) -> None:
    given = told(session)
    given.changes = {"data": (given.address, True)}
    np.testing.assert_array_equal(session.run(given)["y"], -X)
    with pytest.raises(InputError, match="cannot be written to"):
        session.run(X, out={"y": given})


@pytest.mark.parametrize("handle", [1, 2, None])
@pytest.mark.parametrize("as_output", [False, True])
def test_a_run_begins_behind_the_stream_that_is_named(
    session: fourfold.Session, handle: int | None, as_output: bool
) -> None:
    """None is a stream of the library's own. A result is not to be overwritten by what was put in
    before the run.
    """
    context = context_of(session.device)
    with context:
        own = cu.Stream()
        stream = own if handle is None else cu.Stream.of(handle)
    assert stream.pointer is not None
    later = OwnMemory(session.device, X.nbytes)
    later.write(X)
    given = told(session, stream=stream.pointer.value)
    given.memory.write(np.full_like(X, np.nan))
    with context:
        stream.copy(given.address, later.address, X.nbytes)
    if as_output:
        session.run(X, out={"y": given})
        with context:
            stream.finish()
        np.testing.assert_array_equal(given.numpy(), -X)
    else:
        np.testing.assert_array_equal(session.run(given)["y"], -X)
    with context:
        own.release()


def test_nobody_waits_for_what_is_done(session: fourfold.Session) -> None:
    """Whoever names no stream has finished, as far as another than the default one is concerned."""
    driver: Any = calls.library()
    if isinstance(driver, calls.CDLL):
        pytest.skip("only the imagined driver counts")
    given = told(session, stream=None)
    session.run(given)
    driver.names.clear()
    session.run(given)
    assert "cuStreamWaitEvent" not in driver.names

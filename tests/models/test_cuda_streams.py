"""Streams of CUDA's: a caller's, the default one, and those beside it for runs in flight."""

from __future__ import annotations

import gc
import pickle
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from small_networks import small_onnx
from stateful_models import svdf
from tiny_matrix import WEIGHTS, matrix, numbers

import fourfold
from fourfold.backends import find_device
from fourfold.backends.cuda import binding as cu
from fourfold.backends.cuda.binding import calls
from fourfold.backends.cuda.devices import context_of
from fourfold.backends.cuda.memory import OwnMemory
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError, InputError


def open_session(device: object, model: bytes | None = None, **options: Any) -> fourfold.Session:
    return fourfold.Session(model or small_onnx(), device, cache="memory", **options)


def picture(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (1, 5, 6, 3)).astype(np.float32)


class Stream:
    """A stream of some library, as CUDA's protocol has it."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


class Later:
    """Numbers that are in their place when a stream comes to them, and not before."""

    def __init__(self, device: DeviceInfo, stream: cu.Stream, shape: tuple[int, ...]) -> None:
        self._device, self._stream, self._shape = device, stream, shape
        size = 4 * int(np.prod(shape))
        self._first, self._last = OwnMemory(device, size), OwnMemory(device, size)
        self._last.write(np.full(shape, np.nan, np.float32))
        self.told: int | None = None  # the stream that it says its numbers come by

    def put(self, array: np.ndarray) -> None:
        self._first.write(array)
        with context_of(self._device):
            self._stream.copy(self._last.address, self._first.address, array.nbytes)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        told = {"shape": self._shape, "typestr": "<f4", "version": 3, "strides": None}
        return told | {"data": (self._last.address, False), "stream": self.told}


@contextmanager
def stream_on(device: DeviceInfo) -> Iterator[cu.Stream]:
    with context_of(device):
        made = cu.Stream()
    yield made
    with context_of(device):
        made.release()


@pytest.fixture(params=["list", "one"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("FOURFOLD_LAUNCHES", request.param)
    return str(request.param)


@pytest.mark.usefixtures("form")
def test_on_the_callers_stream(cuda: DeviceInfo) -> None:
    """What was put in there before a run comes before it, and nobody has to wait."""
    with stream_on(cuda) as stream, open_session(cuda) as plain:
        assert stream.pointer is not None
        with open_session(Stream(stream.pointer.value or 0)) as session:
            assert session.device == cuda
            given = Later(cuda, stream, (1, 5, 6, 3))
            for seed in range(3):
                given.put(picture(seed))
                found = session.run(given)
                expected = plain.run(picture(seed))
                np.testing.assert_array_equal(found["scores"], expected["scores"])
            frames = [picture(seed) for seed in range(7)]
            for one, found in zip(frames, session.stream(frames), strict=True):
                np.testing.assert_array_equal(found["scores"], plain.run(one)["scores"])
            with pytest.raises(InputError, match="cannot be pickled"):
                pickle.dumps(session)


@pytest.mark.usefixtures("form")
def test_behind_the_default_stream(cuda: DeviceInfo) -> None:
    """Libraries that know of no other stream put all of their work there."""
    with context_of(cuda):
        default = cu.Stream.of(cu.DEFAULT_STREAM)
    given = Later(cuda, default, (1, 5, 6, 3))
    with open_session(cuda) as session:
        for seed in range(3):
            given.put(picture(seed))
            found = session.run(given)["scores"]
            np.testing.assert_array_equal(found, session.run(picture(seed))["scores"])
        session.bind("image", given)
        for seed in range(3):
            given.put(picture(seed))
            found = session.run()["scores"]
            np.testing.assert_array_equal(found, session.run({"image": picture(seed)})["scores"])
    with open_session(Stream(0)) as session:
        given.put(picture(5))
        found = session.run(given)["scores"]
        np.testing.assert_array_equal(found, session.run(picture(5))["scores"])


def test_behind_the_stream_that_an_array_names(cuda: DeviceInfo) -> None:
    with stream_on(cuda) as stream, open_session(cuda) as session:
        assert stream.pointer is not None
        given = Later(cuda, stream, (1, 5, 6, 3))
        given.told = stream.pointer.value
        for seed in range(3):
            given.put(picture(seed))
            found = session.run(given)["scores"]
            np.testing.assert_array_equal(found, session.run(picture(seed))["scores"])


@pytest.mark.parametrize(("library", "name"), [("torch", "cuda_stream"), ("cupy", "ptr")])
def test_streams_of_libraries(cuda: DeviceInfo, library: str, name: str) -> None:
    """Before they knew CUDA's protocol each had a name of its own."""
    kind = type("Stream", (), {"__module__": f"{library}.cuda.streams"})
    with stream_on(cuda) as stream:
        assert stream.pointer is not None
        made: Any = kind()
        setattr(made, name, stream.pointer.value)
        found = find_device(made)
        assert (found, found.shared_queue) == (cuda, stream.pointer.value)
        made.device_index = 0
        setattr(made, name, 0)
        assert find_device(made).shared_queue == cu.DEFAULT_STREAM


def test_what_is_no_stream(cuda: DeviceInfo) -> None:
    with pytest.raises(DeviceError, match="is not a device"):
        find_device(object())
    if isinstance(calls.library(), calls.CDLL):
        return
    driver: Any = calls.library()
    driver.failures["cuStreamGetCtx"] = 400
    with pytest.raises(DeviceError, match="not a CUDA stream"):
        find_device(Stream(77))
    driver.failures.clear()


@pytest.mark.usefixtures("form")
def test_states_in_flight(cuda: DeviceInfo) -> None:
    """What a model keeps goes from run to run in their order."""
    steps = np.random.default_rng(4).normal(size=(9, 2, 7)).astype(np.float32)
    with open_session(cuda, svdf()) as plain, open_session(cuda, svdf()) as session:
        expected = [plain.run(step)["y"] for step in steps]
        for wanted, found in zip(expected, session.stream(steps), strict=True):
            np.testing.assert_array_equal(found["y"], wanted)


@pytest.mark.usefixtures("form")
def test_threads_and_sessions(cuda: DeviceInfo) -> None:
    """Any thread may call any session, several at once."""
    sessions = [open_session(cuda) for _ in range(3)]
    frames = [picture(seed) for seed in range(5)]
    expected = [sessions[0].run(one)["scores"] for one in frames]
    wrong: list[int] = []

    def use(session: fourfold.Session) -> None:
        for _ in range(3):
            for number, found in enumerate(session.stream(frames, depth=2)):
                kept = session.run(frames[number], keep_on_device=True)["scores"]
                pair = (found["scores"], kept.numpy())
                wrong.extend(number for one in pair if not np.array_equal(one, expected[number]))

    threads = [threading.Thread(target=use, args=(one,)) for one in (*sessions, *sessions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for session in sessions:
        session.close()
    assert not wrong


def test_sessions_of_one_model_share_its_weights(cuda: DeviceInfo) -> None:
    driver: Any = calls.library()
    if isinstance(driver, calls.CDLL):
        pytest.skip("only the imagined driver counts")
    sessions = [open_session(cuda, matrix()) for _ in range(3)]
    weights = sessions[0].plan.bytes("constants")
    assert sum(one == ("write", weights) for one in driver.copied) == 1
    for session in sessions:
        x = numbers(5)
        np.testing.assert_allclose(session.run(x)["y"], x @ WEIGHTS.T, atol=1e-6)
        session.close()
    with open_session(cuda, matrix()) as again:
        assert again.run(numbers(5))["y"].shape
    assert sum(one == ("write", weights) for one in driver.copied) == 2


def test_everything_is_given_back(cuda: DeviceInfo, form: str) -> None:
    driver: Any = calls.library()
    if isinstance(driver, calls.CDLL):
        pytest.skip("only the imagined driver counts")
    with open_session(cuda) as session:
        list(session.stream([picture(seed) for seed in range(4)]))
        session.input_array()[...] = picture(1)
        session.run()
        kept = session.run(picture(1), keep_on_device=True)
        session.run(picture(1), out={"scores": kept["scores"]})
    del kept
    assert driver.held == {}
    assert driver.contexts == 0
    cooperative = "cuLaunchCooperativeKernel" in driver.names
    assert cooperative == (form == "one")


@pytest.mark.usefixtures("form")
def test_a_session_that_nobody_closes(cuda: DeviceInfo) -> None:
    driver: Any = calls.library()
    if isinstance(driver, calls.CDLL):
        pytest.skip("only the imagined driver counts")
    session = open_session(cuda)
    list(session.stream([picture(seed) for seed in range(4)]))
    session.input_array()[...] = picture(1)
    session.run()
    assert driver.held
    del session
    gc.collect()
    assert driver.held == {}


def test_no_memory_for_one_more_run(cuda: DeviceInfo) -> None:
    driver: Any = calls.library()
    if isinstance(driver, calls.CDLL):
        pytest.skip("only the imagined driver has little memory")
    with open_session(cuda) as session:
        expected, held = session.run(picture(1))["scores"], dict(driver.held)
        driver.memory = sum(one.nbytes for one in held.values()) + 1000
        with pytest.raises(DeviceError, match="out of memory while allocating memory"):
            session.run_async(picture(1))
        assert driver.held.keys() == held.keys()
        driver.memory = 1 << 30
        found = session.run_async(picture(1)).result()["scores"]
        np.testing.assert_array_equal(found, expected)


def test_a_driver_that_captures_no_such_launches(cuda: DeviceInfo) -> None:
    driver: Any = calls.library()
    if isinstance(driver, calls.CDLL):
        pytest.skip("it does")
    driver.failures["cuStreamEndCapture"] = 900
    with open_session(cuda) as session:
        expected = [session.run(picture(seed))["scores"] for seed in range(3)]
        assert "cuGraphLaunch" not in driver.names
    driver.failures.clear()
    with open_session(cuda) as session:
        for seed, wanted in enumerate(expected):
            np.testing.assert_array_equal(session.run(picture(seed))["scores"], wanted)
        assert "cuGraphLaunch" in driver.names

"""CUDA streams: the caller's, the default stream, and streams of runs in flight."""

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


def random_image(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (1, 5, 6, 3)).astype(np.float32)


class Stream:
    """A stream of another library, following the CUDA stream protocol."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


class DelayedArray:
    """An array whose values arrive when a stream reaches its copy."""

    def __init__(self, device: DeviceInfo, stream: cu.Stream, shape: tuple[int, ...]) -> None:
        self._device, self._stream, self._shape = device, stream, shape
        size = 4 * int(np.prod(shape))
        self._first, self._last = OwnMemory(device, size), OwnMemory(device, size)
        self._last.write(np.full(shape, np.nan, np.float32))
        self.told: int | None = None  # the stream that its interface names

    def put(self, array: np.ndarray) -> None:
        self._first.write(array)
        with context_of(self._device):
            self._stream.copy(self._last.address, self._first.address, array.nbytes)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        interface = {"shape": self._shape, "typestr": "<f4", "version": 3, "strides": None}
        return interface | {"data": (self._last.address, False), "stream": self.told}


@contextmanager
def stream_on(device: DeviceInfo) -> Iterator[cu.Stream]:
    with context_of(device):
        result = cu.Stream()
    yield result
    with context_of(device):
        result.release()


@pytest.fixture(params=["list", "one"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("FOURFOLD_LAUNCHES", request.param)
    return str(request.param)


@pytest.mark.usefixtures("form")
def test_runs_on_the_callers_stream(cuda: DeviceInfo) -> None:
    """Work enqueued before a run completes before it, without host synchronization."""
    with stream_on(cuda) as stream, open_session(cuda) as plain:
        assert stream.pointer is not None
        with open_session(Stream(stream.pointer.value or 0)) as session:
            assert session.device == cuda
            inputs = DelayedArray(cuda, stream, (1, 5, 6, 3))
            for seed in range(3):
                inputs.put(random_image(seed))
                outputs = session.run(inputs)
                expected = plain.run(random_image(seed))
                np.testing.assert_array_equal(outputs["scores"], expected["scores"])
            frames = [random_image(seed) for seed in range(7)]
            for one, outputs in zip(frames, session.stream(frames), strict=True):
                np.testing.assert_array_equal(outputs["scores"], plain.run(one)["scores"])
            with pytest.raises(InputError, match="cannot be pickled"):
                pickle.dumps(session)


@pytest.mark.usefixtures("form")
def test_runs_after_work_on_the_default_stream(cuda: DeviceInfo) -> None:
    """Libraries without stream support enqueue all work on the default stream."""
    with context_of(cuda):
        default = cu.Stream.of(cu.DEFAULT_STREAM)
    inputs = DelayedArray(cuda, default, (1, 5, 6, 3))
    with open_session(cuda) as session:
        for seed in range(3):
            inputs.put(random_image(seed))
            output = session.run(inputs)["scores"]
            np.testing.assert_array_equal(output, session.run(random_image(seed))["scores"])
        session.bind("image", inputs)
        for seed in range(3):
            inputs.put(random_image(seed))
            output = session.run()["scores"]
            np.testing.assert_array_equal(
                output, session.run({"image": random_image(seed)})["scores"]
            )
    with open_session(Stream(0)) as session:
        inputs.put(random_image(5))
        output = session.run(inputs)["scores"]
        np.testing.assert_array_equal(output, session.run(random_image(5))["scores"])


def test_runs_after_the_stream_of_an_array(cuda: DeviceInfo) -> None:
    with stream_on(cuda) as stream, open_session(cuda) as session:
        assert stream.pointer is not None
        inputs = DelayedArray(cuda, stream, (1, 5, 6, 3))
        inputs.told = stream.pointer.value
        for seed in range(3):
            inputs.put(random_image(seed))
            output = session.run(inputs)["scores"]
            np.testing.assert_array_equal(output, session.run(random_image(seed))["scores"])


@pytest.mark.parametrize(("library", "name"), [("torch", "cuda_stream"), ("cupy", "ptr")])
def test_accepts_streams_of_other_libraries(cuda: DeviceInfo, library: str, name: str) -> None:
    """Without the CUDA stream protocol, each library has its own attribute name."""
    kind = type("Stream", (), {"__module__": f"{library}.cuda.streams"})
    with stream_on(cuda) as stream:
        assert stream.pointer is not None
        created: Any = kind()
        setattr(created, name, stream.pointer.value)
        result = find_device(created)
        assert (result, result.shared_queue) == (cuda, stream.pointer.value)
        created.device_index = 0
        setattr(created, name, 0)
        assert find_device(created).shared_queue == cu.DEFAULT_STREAM


def test_rejects_objects_that_are_no_streams(cuda: DeviceInfo) -> None:
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
def test_states_advance_in_the_order_of_runs_in_flight(cuda: DeviceInfo) -> None:
    """States pass from run to run in submission order."""
    steps = np.random.default_rng(4).normal(size=(9, 2, 7)).astype(np.float32)
    with open_session(cuda, svdf()) as plain, open_session(cuda, svdf()) as session:
        expected = [plain.run(step)["y"] for step in steps]
        for expected_value, result in zip(expected, session.stream(steps), strict=True):
            np.testing.assert_array_equal(result["y"], expected_value)


@pytest.mark.usefixtures("form")
def test_threads_share_sessions(cuda: DeviceInfo) -> None:
    """Several threads may call any session at once."""
    sessions = [open_session(cuda) for _ in range(3)]
    frames = [random_image(seed) for seed in range(5)]
    expected = [sessions[0].run(one)["scores"] for one in frames]
    wrong: list[int] = []

    def use(session: fourfold.Session) -> None:
        for _ in range(3):
            for number, result in enumerate(session.stream(frames, depth=2)):
                kept = session.run(frames[number], keep_on_device=True)["scores"]
                pair = (result["scores"], kept.numpy())
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
        pytest.skip("only the fake driver records calls")
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


def test_close_frees_all_driver_objects(cuda: DeviceInfo, form: str) -> None:
    driver: Any = calls.library()
    if isinstance(driver, calls.CDLL):
        pytest.skip("only the fake driver records calls")
    with open_session(cuda) as session:
        list(session.stream([random_image(seed) for seed in range(4)]))
        session.input_array()[...] = random_image(1)
        session.run()
        kept = session.run(random_image(1), keep_on_device=True)
        session.run(random_image(1), out={"scores": kept["scores"]})
    del kept
    assert driver.held == {}
    assert driver.contexts == 0
    cooperative = "cuLaunchCooperativeKernel" in driver.names
    assert cooperative == (form == "one")


@pytest.mark.usefixtures("form")
def test_collected_session_frees_all_driver_objects(cuda: DeviceInfo) -> None:
    driver: Any = calls.library()
    if isinstance(driver, calls.CDLL):
        pytest.skip("only the fake driver records calls")
    session = open_session(cuda)
    list(session.stream([random_image(seed) for seed in range(4)]))
    session.input_array()[...] = random_image(1)
    session.run()
    assert driver.held
    del session
    gc.collect()
    assert driver.held == {}


def test_out_of_memory_in_flight_leaves_the_session_usable(cuda: DeviceInfo) -> None:
    driver: Any = calls.library()
    if isinstance(driver, calls.CDLL):
        pytest.skip("only the fake driver has a memory limit")
    with open_session(cuda) as session:
        expected, held = session.run(random_image(1))["scores"], dict(driver.held)
        driver.memory = sum(one.nbytes for one in held.values()) + 1000
        with pytest.raises(DeviceError, match="out of memory while allocating memory"):
            session.run_async(random_image(1))
        assert driver.held.keys() == held.keys()
        driver.memory = 1 << 30
        result = session.run_async(random_image(1)).result()["scores"]
        np.testing.assert_array_equal(result, expected)


def test_works_without_graph_capture(cuda: DeviceInfo) -> None:
    driver: Any = calls.library()
    if isinstance(driver, calls.CDLL):
        pytest.skip("only the fake driver can fail to capture")
    driver.failures["cuStreamEndCapture"] = 900
    with open_session(cuda) as session:
        expected = [session.run(random_image(seed))["scores"] for seed in range(3)]
        assert "cuGraphLaunch" not in driver.names
    driver.failures.clear()
    with open_session(cuda) as session:
        for seed, expected_value in enumerate(expected):
            np.testing.assert_array_equal(session.run(random_image(seed))["scores"], expected_value)
        assert "cuGraphLaunch" in driver.names

"""Runs in flight: futures, streams, and arrays that kernels read and write in place."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from small_networks import small_onnx

import fourfold
from fourfold.backends import chunked_copy, determine_facts
from fourfold.backends.opencl import binding as cl
from fourfold.backends.opencl import port_memory, slot
from fourfold.errors import InputError

SETTINGS = {
    "list": {},
    "one": {},
    "cuda-list": {},
    "cuda-one": {},
    "cpu": {"placement": "cpu"},
    "interpreted": {"device": "interpret"},
}


@pytest.fixture(params=SETTINGS)
def session(
    request: pytest.FixtureRequest, device: fourfold.DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> Iterator[fourfold.Session]:
    form = request.param.removeprefix("cuda-")
    if form in ("list", "one"):
        monkeypatch.setenv("FOURFOLD_LAUNCHES", form)
    if request.param.startswith("cuda-"):
        device = request.getfixturevalue("cuda")
    options = {"device": device, "cache": "memory", **SETTINGS[request.param]}
    with fourfold.Session(small_onnx(), **options) as opened:
        yield opened


def random_images(session: fourfold.Session, number: int) -> list[np.ndarray]:
    random = np.random.default_rng(29)
    (info,) = session.inputs
    return [random.uniform(-1, 1, info.shape).astype(info.dtype) for _ in range(number)]


def check_results(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def test_futures_complete_in_order(session: fourfold.Session) -> None:
    inputs = random_images(session, 11)
    expected = [session.run(one) for one in inputs]
    done: list[int] = []
    futures = []
    for number, one in enumerate(inputs):
        copy = one.copy()
        futures.append(session.run_async(copy))
        futures[-1].add_done_callback(lambda future, number=number: done.append(number))
        copy.fill(np.nan)
    for future, results in zip(futures, expected, strict=True):
        check_results(future.result(timeout=60), results)
    assert done == sorted(done)
    assert len({one.result()["scores"].tobytes() for one in futures}) == 11


def test_futures_can_be_awaited(session: fourfold.Session) -> None:
    inputs = random_images(session, 5)

    async def all_of_them() -> list[dict[str, np.ndarray]]:
        return list(await asyncio.gather(*(session.run_async(one) for one in inputs)))

    for result, one in zip(asyncio.run(all_of_them()), inputs, strict=True):
        check_results(result, session.run(one))


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_stream_limits_frames_in_flight(session: fourfold.Session, depth: int) -> None:
    inputs = random_images(session, 13)
    requested: list[int] = []

    def frames() -> Iterator[np.ndarray]:
        frame = np.empty_like(inputs[0])  # a camera reuses the same memory
        for number, one in enumerate(inputs):
            requested.append(number)
            np.copyto(frame, one)
            yield frame

    for number, result in enumerate(session.stream(frames(), depth=depth)):
        assert len(requested) <= number + depth, "more frames were requested than are in flight"
        check_results(result, session.run(inputs[number]))
    assert number == 12


def test_stream_can_be_abandoned(session: fourfold.Session) -> None:
    inputs = random_images(session, 7)
    for _ in session.stream(inputs):
        break
    check_results(next(session.stream(inputs[3:])), session.run(inputs[3]))


def test_stream_rejects_an_invalid_frame(session: fourfold.Session) -> None:
    inputs = random_images(session, 3)
    with pytest.raises(InputError, match="shape"):
        list(session.stream([*inputs, inputs[0][:, 1:]]))
    check_results(session.run(inputs[0]), next(session.stream(inputs)))


@pytest.mark.parametrize("depth", [0, -1, "two"])
def test_stream_rejects_an_invalid_depth(session: fourfold.Session, depth: object) -> None:
    with pytest.raises(InputError, match="depth"):
        session.stream([], depth=depth)


def test_synchronous_runs_next_to_runs_in_flight(session: fourfold.Session) -> None:
    inputs = random_images(session, 9)
    expected = [session.run(one) for one in inputs]
    failures: list[str] = []

    def run() -> None:
        for _ in range(5):
            for one, results in zip(inputs, expected, strict=True):
                for name, array in session.run(one).items():
                    if not np.array_equal(array, results[name]):
                        failures.append(name)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        for result, results in zip(session.stream(inputs), expected, strict=True):
            check_results(result, results)
    for thread in threads:
        thread.join()
    assert not failures


def test_input_and_output_arrays_are_views(session: fourfold.Session) -> None:
    inputs = random_images(session, 4)
    array = session.input_array()
    for one in inputs:
        array[...] = one
        session.output_array("scores").fill(np.nan)
        results = session.run()
        check_results(results, session.run(one))
        assert np.shares_memory(results["scores"], session.output_array("scores"))
    assert session.input_array("image") is not None
    with pytest.raises(InputError, match="imag"):
        session.input_array("imag")


def test_runs_in_flight_read_input_arrays(session: fourfold.Session) -> None:
    inputs = random_images(session, 9)
    futures = []
    for one in inputs:
        session.input_array("image")[...] = one
        futures.append(session.run_async())
    for future, one in zip(futures, inputs, strict=True):
        check_results(future.result(timeout=60), session.run(one))


def test_close_waits_for_runs_in_flight(session: fourfold.Session) -> None:
    (one, two) = random_images(session, 2)
    expected = session.run(one)
    first, second = session.run_async(one), session.run_async(two)
    array = session.input_array()
    session.close()
    check_results(first.result(timeout=60), expected)
    assert second.result(timeout=60).keys() == expected.keys()
    array.fill(1)  # the array outlives the session
    with pytest.raises(InputError, match="closed"):
        session.run_async(one)
    with pytest.raises(InputError, match="closed"):
        session.stream([one])
    with pytest.raises(InputError, match="closed"):
        session.run()


def test_views_are_not_copied(device: fourfold.DeviceInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (device.is_cpu and determine_facts(device, ("persistent_mapping",)).persistent_mapping):
        pytest.skip("the device does not share memory with the host")
    copies: list[str] = []

    def note(owner: object, name: str) -> None:
        plain = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *given: (copies.append(name), plain(*given))[1])

    with fourfold.Session(small_onnx(), device, cache="memory") as session:
        x = random_images(session, 1)[0]
        expected, array = session.run(x), session.input_array()
        array[...] = x
        for owner in (slot, port_memory, chunked_copy):
            if hasattr(owner, "copied"):
                note(owner, "copied")
        for name in ("read", "write", "map", "copy"):
            note(cl.Queue, name)
        note(np, "copyto")
        check_results(session.run(), expected)
        assert copies == []
        session.run_async(x).result()
        assert "copied" in copies, "the patched functions record no copies"

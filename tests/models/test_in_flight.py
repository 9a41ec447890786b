"""Runs that nobody waits for at once: futures, streams, and arrays where kernels read and write."""

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
    with fourfold.Session(small_onnx(), **options) as made:
        yield made


def pictures(session: fourfold.Session, number: int) -> list[np.ndarray]:
    random = np.random.default_rng(29)
    (info,) = session.inputs
    return [random.uniform(-1, 1, info.shape).astype(info.dtype) for _ in range(number)]


def check(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def test_futures_in_order(session: fourfold.Session) -> None:
    given = pictures(session, 11)
    expected = [session.run(one) for one in given]
    done: list[int] = []
    futures = []
    for number, one in enumerate(given):
        copy = one.copy()
        futures.append(session.run_async(copy))
        futures[-1].add_done_callback(lambda future, number=number: done.append(number))
        copy.fill(np.nan)
    for future, results in zip(futures, expected, strict=True):
        check(future.result(timeout=60), results)
    assert done == sorted(done)
    assert len({one.result()["scores"].tobytes() for one in futures}) == 11


def test_awaited(session: fourfold.Session) -> None:
    given = pictures(session, 5)

    async def all_of_them() -> list[dict[str, np.ndarray]]:
        return list(await asyncio.gather(*(session.run_async(one) for one in given)))

    for found, one in zip(asyncio.run(all_of_them()), given, strict=True):
        check(found, session.run(one))


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_stream(session: fourfold.Session, depth: int) -> None:
    given = pictures(session, 13)
    asked: list[int] = []

    def frames() -> Iterator[np.ndarray]:
        frame = np.empty_like(given[0])  # a camera fills the same memory again and again
        for number, one in enumerate(given):
            asked.append(number)
            np.copyto(frame, one)
            yield frame

    for number, found in enumerate(session.stream(frames(), depth=depth)):
        assert len(asked) <= number + depth, "more was asked for than is in flight"
        check(found, session.run(given[number]))
    assert number == 12


def test_stream_that_is_left(session: fourfold.Session) -> None:
    given = pictures(session, 7)
    for _ in session.stream(given):
        break
    check(next(session.stream(given[3:])), session.run(given[3]))


def test_stream_with_a_wrong_frame(session: fourfold.Session) -> None:
    given = pictures(session, 3)
    with pytest.raises(InputError, match="shape"):
        list(session.stream([*given, given[0][:, 1:]]))
    check(session.run(given[0]), next(session.stream(given)))


@pytest.mark.parametrize("depth", [0, -1, "two"])
def test_wrong_depth(session: fourfold.Session, depth: object) -> None:
    with pytest.raises(InputError, match="depth"):
        session.stream([], depth=depth)


def test_runs_beside_runs_in_flight(session: fourfold.Session) -> None:
    given = pictures(session, 9)
    expected = [session.run(one) for one in given]
    wrong: list[str] = []

    def run() -> None:
        for _ in range(5):
            for one, results in zip(given, expected, strict=True):
                for name, array in session.run(one).items():
                    if not np.array_equal(array, results[name]):
                        wrong.append(name)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        for found, results in zip(session.stream(given), expected, strict=True):
            check(found, results)
    for thread in threads:
        thread.join()
    assert not wrong


def test_views(session: fourfold.Session) -> None:
    given = pictures(session, 4)
    array = session.input_array()
    for one in given:
        array[...] = one
        session.output_array("scores").fill(np.nan)
        results = session.run()
        check(results, session.run(one))
        assert np.shares_memory(results["scores"], session.output_array("scores"))
    assert session.input_array("image") is not None
    with pytest.raises(InputError, match="imag"):
        session.input_array("imag")


def test_views_of_runs_in_flight(session: fourfold.Session) -> None:
    given = pictures(session, 9)
    futures = []
    for one in given:
        session.input_array("image")[...] = one
        futures.append(session.run_async())
    for future, one in zip(futures, given, strict=True):
        check(future.result(timeout=60), session.run(one))


def test_closed_with_runs_in_flight(session: fourfold.Session) -> None:
    (one, two) = pictures(session, 2)
    expected = session.run(one)
    first, second = session.run_async(one), session.run_async(two)
    array = session.input_array()
    session.close()
    check(first.result(timeout=60), expected)
    assert second.result(timeout=60).keys() == expected.keys()
    array.fill(1)  # it outlives the session
    with pytest.raises(InputError, match="closed"):
        session.run_async(one)
    with pytest.raises(InputError, match="closed"):
        session.stream([one])
    with pytest.raises(InputError, match="closed"):
        session.run()


def test_views_copy_nothing(device: fourfold.DeviceInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (device.is_cpu and determine_facts(device, ("persistent_mapping",)).persistent_mapping):
        pytest.skip("this device's memory is not the host's")
    copies: list[str] = []

    def note(owner: object, name: str) -> None:
        plain = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *given: (copies.append(name), plain(*given))[1])

    with fourfold.Session(small_onnx(), device, cache="memory") as session:
        x = pictures(session, 1)[0]
        expected, array = session.run(x), session.input_array()
        array[...] = x
        for owner in (slot, port_memory, chunked_copy):
            if hasattr(owner, "copied"):
                note(owner, "copied")
        for name in ("read", "write", "map", "copy"):
            note(cl.Queue, name)
        note(np, "copyto")
        check(session.run(), expected)
        assert copies == []
        session.run_async(x).result()
        assert "copied" in copies, "what is counted would have been seen"

"""A session frees its resources when it is closed, collected, or fails to open."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from held_resources import HandleCount, counted_handles
from tiny_matrix import WEIGHTS, matrix, numbers

import fourfold
from fourfold.backends.opencl import binding as cl
from fourfold.backends.opencl import ports
from fourfold.backends.opencl.player import Player
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError, InputError
from fourfold.runtime.in_flight import RunsInFlight

X = numbers(1)
USES: dict[str, Callable[[fourfold.Session], object]] = {
    "run": lambda session: session.run(X),
    "run_async": lambda session: session.run_async(X),
    "run()": lambda session: session.run(),
    "stream": lambda session: list(session.stream([X])),
    "resize": lambda session: session.resize(x=(3, 4)),
    "reset": lambda session: session.reset(),
    "profile": lambda session: session.profile(X),
    "input_array": lambda session: session.input_array(),
    "output_array": lambda session: session.output_array(),
}


@pytest.fixture
def handles(device: DeviceInfo) -> Iterator[HandleCount]:
    """Count the handles that the test creates, after all permanent ones exist."""
    if device.api != "opencl":
        pytest.skip("the device calls no OpenCL driver")
    with fourfold.Session(matrix(), device, cache=None) as session:
        session.run(X)
    with counted_handles() as count:
        yield count


def is_right(found: np.ndarray) -> bool:
    return np.allclose(found, X @ WEIGHTS.T, atol=1e-6)


@pytest.mark.parametrize("where", ["device", "cpu"])
@pytest.mark.parametrize("use", USES)
def test_closed_session_rejects_every_call(device: DeviceInfo, where: str, use: str) -> None:
    session = fourfold.Session(matrix(), device if where == "device" else "cpu", cache=None)
    session.run(X)
    session.close()
    session.close()
    with pytest.raises(InputError, match="this session is closed"):
        USES[use](session)
    assert [info.name for info in session.inputs] == ["x"]  # its description stays readable


def test_close_frees_all_handles(device: DeviceInfo, handles: HandleCount) -> None:
    session = fourfold.Session(matrix(), device, cache=None)
    session.input_array()[:] = X
    assert is_right(session.run()["y"])
    assert is_right(session.run_async(X).result()["y"])
    session.resize(x=(3, 4))
    assert handles.resources().handles
    session.close()
    assert not handles.resources().handles


def test_unreferenced_session_is_freed_without_the_collector(
    device: DeviceInfo, handles: HandleCount
) -> None:
    gc.disable()
    try:
        session = fourfold.Session(matrix(), device, cache=None)
        session.run(X)
        del session  # device memory is too scarce to wait for the garbage collector
        assert not +handles.live
    finally:
        gc.enable()


def test_session_in_a_reference_cycle_is_freed(device: DeviceInfo, handles: HandleCount) -> None:
    cycle: list[object] = [fourfold.Session(matrix(), device, cache=None)]
    cycle.append(cycle)
    del cycle
    assert not handles.resources().handles


@pytest.mark.parametrize("step", ["_upload", "_map_ports", "_bind_all"])
def test_session_that_fails_to_open_frees_its_handles(
    device: DeviceInfo, handles: HandleCount, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    original = getattr(Player, step)

    def fail_after_step(self: Player) -> None:
        original(self)
        raise cl.Error(step, -6)

    monkeypatch.setattr(Player, step, fail_after_step)
    with pytest.raises(DeviceError, match="out of memory"):
        fourfold.Session(matrix(), device, cache=None)
    assert not handles.resources().handles


def test_ports_that_fail_to_open_free_their_handles(
    device: DeviceInfo, handles: HandleCount, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: ports.Ports) -> None:
        raise cl.Error("clEnqueueMapBuffer", -6)

    monkeypatch.setattr(ports.Ports, "_make_handshake", fail)
    monkeypatch.setattr(ports.Ports, "locations", fail)
    with pytest.raises(DeviceError):
        fourfold.Session(matrix(), device, cache=None)
    assert not handles.resources().handles


@pytest.mark.parametrize("where", ["device", "cpu"])
def test_close_during_runs_of_other_threads(device: DeviceInfo, where: str) -> None:
    """Runs in progress finish, and later runs are rejected."""
    chosen = device if where == "device" else "cpu"
    for _ in range(10):
        session = fourfold.Session(matrix(), chosen, cache=None)
        messages: list[object] = []
        barrier = threading.Barrier(5)
        threads = [
            threading.Thread(target=_run_until_closed, args=(session, barrier, messages))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        barrier.wait()
        session.close()
        for thread in threads:
            thread.join()
        assert messages == ["this session is closed"] * 4


def _run_until_closed(
    session: fourfold.Session, barrier: threading.Barrier, messages: list[object]
) -> None:
    barrier.wait()
    try:
        for number in range(100_000):
            outputs = session.run_async(X).result() if number % 4 == 0 else session.run(X)
            if not is_right(outputs["y"]):
                messages.append("wrong")
    except fourfold.FourfoldError as error:
        messages.append(error.what)


class InstantSlot:
    """A slot whose run is complete as soon as it starts."""

    done = True
    inputs = outputs = (X,)

    def begin(self, arrays: object, spin: bool = False) -> None: ...
    def end(self, spin: bool = False) -> tuple[np.ndarray, ...]:
        return self.outputs

    def close(self) -> None: ...


def test_run_is_in_flight_until_its_callback_returns() -> None:
    """`close` waits for runs in flight and then frees what their callbacks use."""
    seen: list[int] = []
    flights = RunsInFlight(InstantSlot, ["y"], lambda: seen.append(len(flights._flying)))
    flights.begin([X], limit=1).wait()
    assert seen == [1]
    assert not flights._flying

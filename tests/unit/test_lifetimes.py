"""A session frees what it held: when it is closed, when nobody has it, and when it never was."""

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
    """Counts what is made by the test, after all that is kept for good is there."""
    if device.api != "opencl":
        pytest.skip("no driver is called there")
    with fourfold.Session(matrix(), device, cache=None) as session:
        session.run(X)
    with counted_handles() as count:
        yield count


def is_right(found: np.ndarray) -> bool:
    return np.allclose(found, X @ WEIGHTS.T, atol=1e-6)


@pytest.mark.parametrize("where", ["device", "cpu"])
@pytest.mark.parametrize("use", USES)
def test_a_closed_session_says_so_whatever_it_is_asked(
    device: DeviceInfo, where: str, use: str
) -> None:
    session = fourfold.Session(matrix(), device if where == "device" else "cpu", cache=None)
    session.run(X)
    session.close()
    session.close()
    with pytest.raises(InputError, match="this session is closed"):
        USES[use](session)
    assert [info.name for info in session.inputs] == ["x"]  # what it was can still be read


def test_closing_frees_all(device: DeviceInfo, handles: HandleCount) -> None:
    session = fourfold.Session(matrix(), device, cache=None)
    session.input_array()[:] = X
    assert is_right(session.run()["y"])
    assert is_right(session.run_async(X).result()["y"])
    session.resize(x=(3, 4))
    assert handles.resources().handles
    session.close()
    assert not handles.resources().handles


def test_a_session_that_nobody_has_is_freed(device: DeviceInfo, handles: HandleCount) -> None:
    gc.disable()
    try:
        session = fourfold.Session(matrix(), device, cache=None)
        session.run(X)
        del session  # without the collector: what a device holds is dear
        assert not +handles.live
    finally:
        gc.enable()


def test_a_session_in_a_cycle_is_freed(device: DeviceInfo, handles: HandleCount) -> None:
    cycle: list[object] = [fourfold.Session(matrix(), device, cache=None)]
    cycle.append(cycle)
    del cycle
    assert not handles.resources().handles


@pytest.mark.parametrize("step", ["_upload", "_map_ports", "_bind_all"])
def test_a_session_that_failed_on_its_way_holds_nothing(
    device: DeviceInfo, handles: HandleCount, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    whole = getattr(Player, step)

    def half(self: Player) -> None:
        whole(self)
        raise cl.Error(step, -6)

    monkeypatch.setattr(Player, step, half)
    with pytest.raises(DeviceError, match="out of memory"):
        fourfold.Session(matrix(), device, cache=None)
    assert not handles.resources().handles


def test_ports_that_failed_on_their_way_hold_nothing(
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
def test_closing_while_others_run(device: DeviceInfo, where: str) -> None:
    """Whoever runs ends well, and whoever comes after is told."""
    chosen = device if where == "device" else "cpu"
    for _ in range(10):
        session = fourfold.Session(matrix(), chosen, cache=None)
        told: list[object] = []
        begun = threading.Barrier(5)
        threads = [
            threading.Thread(target=_run_until_closed, args=(session, begun, told))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        begun.wait()
        session.close()
        for thread in threads:
            thread.join()
        assert told == ["this session is closed"] * 4


def _run_until_closed(
    session: fourfold.Session, begun: threading.Barrier, told: list[object]
) -> None:
    begun.wait()
    try:
        for number in range(100_000):
            found = session.run_async(X).result() if number % 4 == 0 else session.run(X)
            if not is_right(found["y"]):
                told.append("wrong")
    except fourfold.FourfoldError as error:
        told.append(error.what)


class AtOnce:
    """A slot whose run has ended as soon as it began."""

    done = True
    inputs = outputs = (X,)

    def begin(self, arrays: object, spin: bool = False) -> None: ...
    def end(self, spin: bool = False) -> tuple[np.ndarray, ...]:
        return self.outputs

    def close(self) -> None: ...


def test_a_run_is_in_flight_until_all_is_done_for_it() -> None:
    """Who closes waits for what is in flight, and then lets go of what is used after a run."""
    seen: list[int] = []
    flights = RunsInFlight(AtOnce, ["y"], lambda: seen.append(len(flights._flying)))
    flights.begin([X], limit=1).wait()
    assert seen == [1]
    assert not flights._flying

"""Where ports are in runs by CUDA: what kernels use where it is, and what is copied for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from small_networks import small_onnx
from stateful_models import svdf

import fourfold
from fourfold.backends.cuda import binding as cu
from fourfold.backends.cuda import port_memory
from fourfold.backends.cuda.binding import calls
from fourfold.backends.cuda.bound_memory import BoundMemory
from fourfold.backends.cuda.memory import CudaMemory, OwnMemory
from fourfold.backends.cuda.player import Player
from fourfold.backends.cuda.replay import Route
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError
from fourfold.runtime.device_memory import fresh_array
from fourfold.support import forks

X = np.random.default_rng(5).uniform(-1, 1, (1, 5, 6, 3)).astype(np.float32)


@pytest.fixture(params=["list", "one"])
def session(
    request: pytest.FixtureRequest, cuda: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> Iterator[fourfold.Session]:
    monkeypatch.setenv("FOURFOLD_LAUNCHES", request.param)
    with fourfold.Session(small_onnx(), cuda, cache="memory") as made:
        yield made


def player_of(session: fourfold.Session) -> Player:
    player = session._instance.executor.player
    assert isinstance(player, Player)
    return player


def route(session: fourfold.Session, arrays: list[Any], into: list[Any] | None = None) -> Route:
    player = player_of(session)
    found: BoundMemory = player._bound
    with player._convert_errors("finding a route"):
        return found.find(arrays, into, player._stream).route


def part(memory: CudaMemory, skipped: int, size: int | None = None) -> CudaMemory:
    room = memory.size - skipped if size is None else size
    return CudaMemory(memory.device, memory.address + skipped, room, memory)


def test_what_fits_is_used_where_it_is(session: fourfold.Session) -> None:
    source, target = (OwnMemory(session.device, 1024) for _ in range(2))
    shorter = session.plan.on_device  # one launch fetches nothing that is there
    image = session.plan.inputs[0].buffer if shorter is None else shorter.buffers[0]
    scores, twice = (port.buffer for port in session.plan.outputs)
    for skipped in (0, 16, 512):
        found = route(session, [part(source, skipped)], [target, part(target, 512)])
        places = dict(found.addresses)
        assert places[image] == source.address + skipped
        assert (places[scores], places[twice]) == (target.address, target.address + 512)
        assert (found.before, found.after) == ((), ())
        assert found.arguments == (None if shorter is None else shorter.arguments)


@pytest.mark.parametrize(("skipped", "size"), [(4, None), (8, None), (0, 360)])
def test_what_kernels_cannot_use_is_copied(
    session: fourfold.Session, skipped: int, size: int | None
) -> None:
    """They read whole vectors, a little behind the end."""
    given = part(OwnMemory(session.device, 1024), skipped, size)
    (copy,) = route(session, [given], [None, None]).before
    assert (copy.source, copy.size) == (given.address, 360)
    assert dict(route(session, [given]).addresses)[session.plan.inputs[0].buffer] == copy.target


def test_nobody_fetches_what_nobody_wants(session: fourfold.Session) -> None:
    source = OwnMemory(session.device, 1024)
    assert route(session, [source], [None, None]).after == ()
    downloads = len(route(session, [source], None).after)
    assert downloads == (0 if session.plan.requirements.reaches_host else 2)


def test_large_inputs_come_in_chunks(cuda: DeviceInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a list of launches: to the device while the rest is copied. Arrays of any layout, what the
    caller wrote to pinned memory, and runs of the other ways have the same results.
    """
    monkeypatch.setenv("FOURFOLD_LAUNCHES", "list")
    with fourfold.Session(small_onnx(), cuda, cache="memory") as plain:
        expected = [plain.run(X * n) for n in range(5)]
    monkeypatch.setattr(port_memory, "THREADED_COPY_BYTES", 64)
    monkeypatch.setattr(port_memory, "THREAD_CHUNK", 112)
    copied: list[int] = []
    copy = cu.Stream.copy

    def noted(stream: cu.Stream, target: int, source: int, size: int) -> None:
        copied.append(size)
        copy(stream, target, source, size)

    with fourfold.Session(small_onnx(), cuda, cache="memory") as session:
        monkeypatch.setattr(cu.Stream, "copy", noted)
        turned = np.ascontiguousarray((X * 2).transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)
        for number, given in ((1, X), (2, turned)):
            copied.clear()
            np.testing.assert_array_equal(session.run(given)["scores"], expected[number]["scores"])
            assert copied == [112, 112, 112, 24]
        given = fresh_array(session.device, session.inputs[0])
        given.memory.write(X * 4)
        session.input_array("image")[...] = X * 4
        for found in (session.run_async(X * 4).result(), session.run(given), session.run()):
            np.testing.assert_array_equal(found["scores"], expected[4]["scores"])


def test_variables_stay_in_the_order_of_runs(cuda: DeviceInfo) -> None:
    with fourfold.Session(svdf(), cuda, cache="memory") as session:
        player = player_of(session)
        slot = player.open_slot()
        kept = set(player._buffers.variables().values())
        beside = {one.target for one in slot._uploads} | {one.source for one in slot._downloads}
        assert kept
        assert not kept & beside
        slot.close()


def test_in_a_forked_child_the_driver_is_left_alone(
    session: fourfold.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its threads are the parent's: whatever is done ends in words, and nothing is given back."""
    kept: Any = session.run(X, keep_on_device=True)["scores"]
    slot = player_of(session).open_slot()
    lost = forks.lost | {"cuda"}
    monkeypatch.setattr(forks, "lost", lost)
    monkeypatch.setattr(calls, "lost", lost)
    driver: Any = calls.library()
    called = list(getattr(driver, "names", ()))
    with pytest.raises(DeviceError, match="before this process was forked"):
        session.run(X)
    with pytest.raises(DeviceError, match="before this process was forked"):
        kept.numpy()
    with pytest.raises(DeviceError, match="before this process was forked"):
        slot.begin([X])
    slot.close()
    del kept
    assert list(getattr(driver, "names", ())) == called
    monkeypatch.undo()


def test_memory_of_results_is_used_again(session: fourfold.Session) -> None:
    """Unless somebody else may still have work for it."""
    first = session.run(X, keep_on_device=True)
    places = {one.memory.address for one in first.values()}  # type: ignore[union-attr]
    del first
    again: Any = session.run(X, keep_on_device=True)
    assert {one.memory.address for one in again.values()} == places
    np.testing.assert_array_equal(again["scores"].numpy(), session.run(X)["scores"])
    shown = again["scores"].__cuda_array_interface__["data"][0]
    driver: Any = calls.library()
    held = dict(getattr(driver, "held", {}))
    del again
    if held:
        assert held.keys() - driver.held.keys() == {shown}
    other: Any = session.run(X, keep_on_device=True)
    np.testing.assert_array_equal(other["scores"].numpy(), session.run(X)["scores"])


def test_spare_memory_is_given_up_for_others(cuda: DeviceInfo) -> None:
    driver: Any = calls.library()
    if isinstance(driver, calls.CDLL):
        pytest.skip("only the imagined driver has little memory")
    with fourfold.Session(small_onnx(), cuda, cache="memory"):
        kept = [OwnMemory(cuda, 1 << 16) for _ in range(4)]
        kept.clear()
        driver.memory = sum(one.nbytes for one in driver.held.values()) + (1 << 12)
        spare = len(driver.held)
        made = OwnMemory(cuda, 1 << 17)
        assert len(driver.held) == spare - 3
        assert made.size == 1 << 17
        del made
    assert driver.held == {}

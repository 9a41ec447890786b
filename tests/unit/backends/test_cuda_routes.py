"""Routes of inputs and outputs with CUDA: memory used in place, and memory that is copied."""

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
    with fourfold.Session(small_onnx(), cuda, cache="memory") as opened:
        yield opened


def player_of(session: fourfold.Session) -> Player:
    player = session._instance.executor.player
    assert isinstance(player, Player)
    return player


def route(session: fourfold.Session, arrays: list[Any], into: list[Any] | None = None) -> Route:
    player = player_of(session)
    result: BoundMemory = player._bound
    with player._convert_errors("finding a route"):
        return result.find(arrays, into, player._stream).route


def sub_memory(memory: CudaMemory, skipped: int, size: int | None = None) -> CudaMemory:
    room = memory.size - skipped if size is None else size
    return CudaMemory(memory.device, memory.address + skipped, room, memory)


def test_suitable_memory_is_used_in_place(session: fourfold.Session) -> None:
    source, target = (OwnMemory(session.device, 1024) for _ in range(2))
    shorter = session.plan.on_device  # one launch does not fetch inputs that are on the device
    image = session.plan.inputs[0].buffer if shorter is None else shorter.buffers[0]
    scores, twice = (port.buffer for port in session.plan.outputs)
    for skipped in (0, 16, 512):
        result = route(session, [sub_memory(source, skipped)], [target, sub_memory(target, 512)])
        addresses = dict(result.addresses)
        assert addresses[image] == source.address + skipped
        assert (addresses[scores], addresses[twice]) == (target.address, target.address + 512)
        assert (result.before, result.after) == ((), ())
        assert result.arguments == (None if shorter is None else shorter.arguments)


@pytest.mark.parametrize(("skipped", "size"), [(4, None), (8, None), (0, 360)])
def test_unsuitable_memory_is_copied(
    session: fourfold.Session, skipped: int, size: int | None
) -> None:
    """Kernels read whole vectors, a little beyond the end."""
    inputs = sub_memory(OwnMemory(session.device, 1024), skipped, size)
    (copy,) = route(session, [inputs], [None, None]).before
    assert (copy.source, copy.size) == (inputs.address, 360)
    assert dict(route(session, [inputs]).addresses)[session.plan.inputs[0].buffer] == copy.target


def test_unrequested_outputs_are_not_downloaded(session: fourfold.Session) -> None:
    source = OwnMemory(session.device, 1024)
    assert route(session, [source], [None, None]).after == ()
    downloads = len(route(session, [source], None).after)
    assert downloads == (0 if session.plan.requirements.reaches_host else 2)


def test_large_inputs_are_uploaded_in_chunks(
    cuda: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list of launches uploads chunks while the next one is copied. Arrays of any
    layout, pinned input arrays and other kinds of run give the same results.
    """
    monkeypatch.setenv("FOURFOLD_LAUNCHES", "list")
    with fourfold.Session(small_onnx(), cuda, cache="memory") as plain:
        expected = [plain.run(X * n) for n in range(5)]
    monkeypatch.setattr(port_memory, "THREADED_COPY_BYTES", 64)
    monkeypatch.setattr(port_memory, "THREAD_CHUNK", 112)
    copied: list[int] = []
    copy = cu.Stream.copy

    def recording_copy(stream: cu.Stream, target: int, source: int, size: int) -> None:
        copied.append(size)
        copy(stream, target, source, size)

    with fourfold.Session(small_onnx(), cuda, cache="memory") as session:
        monkeypatch.setattr(cu.Stream, "copy", recording_copy)
        turned = np.ascontiguousarray((X * 2).transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)
        for number, inputs in ((1, X), (2, turned)):
            copied.clear()
            np.testing.assert_array_equal(session.run(inputs)["scores"], expected[number]["scores"])
            assert copied == [112, 112, 112, 24]
        inputs = fresh_array(session.device, session.inputs[0])
        inputs.memory.write(X * 4)
        session.input_array("image")[...] = X * 4
        for result in (session.run_async(X * 4).result(), session.run(inputs), session.run()):
            np.testing.assert_array_equal(result["scores"], expected[4]["scores"])


def test_variables_are_not_shared_with_slots(cuda: DeviceInfo) -> None:
    with fourfold.Session(svdf(), cuda, cache="memory") as session:
        player = player_of(session)
        slot = player.open_slot()
        kept = set(player._buffers.variables().values())
        beside = {one.target for one in slot._uploads} | {one.source for one in slot._downloads}
        assert kept
        assert not kept & beside
        slot.close()


def test_forked_child_does_not_call_the_driver(
    session: fourfold.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver's threads exist only in the parent: every call raises, and nothing is freed."""
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


def test_result_memory_is_reused(session: fourfold.Session) -> None:
    """Memory whose address was exported is not reused, because other code may use it."""
    first = session.run(X, keep_on_device=True)
    addresses = {one.memory.address for one in first.values()}  # type: ignore[union-attr]
    del first
    again: Any = session.run(X, keep_on_device=True)
    assert {one.memory.address for one in again.values()} == addresses
    np.testing.assert_array_equal(again["scores"].numpy(), session.run(X)["scores"])
    shown = again["scores"].__cuda_array_interface__["data"][0]
    driver: Any = calls.library()
    held = dict(getattr(driver, "held", {}))
    del again
    if held:
        assert held.keys() - driver.held.keys() == {shown}
    other: Any = session.run(X, keep_on_device=True)
    np.testing.assert_array_equal(other["scores"].numpy(), session.run(X)["scores"])


def test_spare_memory_is_freed_for_new_allocations(cuda: DeviceInfo) -> None:
    driver: Any = calls.library()
    if isinstance(driver, calls.CDLL):
        pytest.skip("only the fake driver has a memory limit")
    with fourfold.Session(small_onnx(), cuda, cache="memory"):
        kept = [OwnMemory(cuda, 1 << 16) for _ in range(4)]
        kept.clear()
        driver.memory = sum(one.nbytes for one in driver.held.values()) + (1 << 12)
        spare = len(driver.held)
        result = OwnMemory(cuda, 1 << 17)
        assert len(driver.held) == spare - 3
        assert result.size == 1 << 17
        del result
    assert driver.held == {}

"""Runs from memory of the device to memory of the device, asked for again with the same objects."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from weakref import ref

import numpy as np
import pytest
from small_networks import small_onnx

import fourfold
from fourfold.backends.cuda import binding as cu
from fourfold.backends.cuda.binding import calls
from fourfold.backends.cuda.bound_memory import BoundMemory
from fourfold.backends.cuda.bound_run import BoundRun
from fourfold.backends.cuda.devices import context_of
from fourfold.backends.cuda.memory import OwnMemory
from fourfold.backends.cuda.replay import LastRun, Replay
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError, InputError
from fourfold.runtime.device_array import DeviceArray

SHAPE, LAUNCH = (1, 5, 6, 3), "cuGraphLaunch"


def picture(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, SHAPE).astype(np.float32)


def on_device(device: DeviceInfo, numbers: np.ndarray) -> DeviceArray:
    made = OwnMemory(device, numbers.nbytes)
    made.write(numbers)
    return DeviceArray(made, numbers.shape, numbers.dtype, device)


def array(session: fourfold.Session, seed: int) -> DeviceArray:
    return on_device(session.device, picture(seed))


def targets(session: fourfold.Session) -> dict[str, DeviceArray]:
    infos = session.outputs
    return {
        info.name: on_device(session.device, np.zeros(info.shape, info.dtype)) for info in infos
    }


@pytest.fixture
def session(cuda: DeviceInfo, monkeypatch: pytest.MonkeyPatch) -> Iterator[fourfold.Session]:
    monkeypatch.setenv("FOURFOLD_LAUNCHES", "one")
    with fourfold.Session(small_onnx(), cuda, cache="memory") as made:
        yield made


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What became of each run that was to be played by the shorter way."""
    found, play = list[bool](), BoundRun.play

    def noted(self: BoundRun) -> bool:
        found.append(play(self))
        return found[-1]

    monkeypatch.setattr(BoundRun, "play", noted)
    return found


def check(session: fourfold.Session, seed: int, found: dict[str, Any]) -> None:
    for name, wanted in session.run(picture(seed)).items():
        np.testing.assert_array_equal(found[name].numpy(), wanted)


@pytest.mark.parametrize("form", ["alone", "list", "tuple", "dict"])
def test_the_third_time_is_shorter(
    session: fourfold.Session, played: list[bool], form: str
) -> None:
    source, target = array(session, 0), targets(session)
    given: Any = {"list": [source], "tuple": (source,), "dict": {"image": source}}
    out: Any = target if form in ("alone", "dict") else list(target.values())
    for seed in range(5):
        source.memory.write(picture(seed))
        for one in target.values():
            one.memory.write(np.full(one.shape, np.nan, np.float32))
        found = session.run(given.get(form, source), out=out)
        assert [found[name] for name in target] == list(target.values())
        check(session, seed, found)
    assert played == [True] * 3


def test_other_objects_are_looked_at(session: fourfold.Session, played: list[bool]) -> None:
    sources, target, other = (
        [array(session, seed) for seed in range(3)],
        *map(targets, [session] * 2),
    )
    for seed in (0, 0, 0, 1, 0, 1, 1, 2):
        check(session, seed, session.run(sources[seed], out=target))
    assert len(played) == 3
    check(session, 0, session.run(sources[0], out=other))  # of what is known but for its outputs
    found = session.run(sources[0], out={"twice": other["twice"]})
    assert isinstance(found["scores"], np.ndarray)
    check(session, 0, session.run(sources[0], out=target))
    assert len(played) == 3
    assert list(session.run(sources[0], outputs="scores", out=target["scores"])) == ["scores"]
    with pytest.raises(InputError, match="no input 'picture'"):
        session.run({"picture": sources[0]}, out=target)
    with pytest.raises(InputError, match="2 arrays were passed for 1 inputs"):
        session.run([sources[0], None], out=target)
    kept = session.run(sources[1], keep_on_device=True)
    check(session, 1, kept)


def test_nobodys_memory_is_held(session: fourfold.Session, played: list[bool]) -> None:
    source, target = array(session, 0), targets(session)
    for _ in range(4):
        session.run(source, out=target)
    assert played == [True, True]
    known = [ref(one) for one in (source, source.memory, *target.values())]
    del source, target
    gc.collect()
    assert [one() for one in known] == [None] * len(known)
    source, target = array(session, 5), targets(session)  # which may be where the others were
    for _ in range(3):
        check(session, 5, session.run(source, out=target))


@pytest.mark.parametrize(("count", "found"), [(5, {True, False}), (11, {True})])
def test_more_than_are_kept(
    session: fourfold.Session,
    played: list[bool],
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    found: set[bool],
) -> None:
    """By the player alone, or by the session, too."""
    monkeypatch.setattr(BoundMemory, "MAX_REPLAYS", 2)
    sources, target = [array(session, seed) for seed in range(count)], targets(session)
    for _ in range(3):
        for seed, source in enumerate(sources):
            for _ in range(3):
                check(session, seed, session.run(source, out=target))
    assert set(played) == found


def test_traced_bound_and_closed(session: fourfold.Session, played: list[bool]) -> None:
    source, target = array(session, 0), targets(session)
    for _ in range(3):
        session.run(source, out=target)
    with session.trace() as trace:
        check(session, 0, session.run(source, out=target))
    assert "run" in {span.name for span in trace.spans}
    other = array(session, 4)
    session.bind("image", other)
    found = session.run({}, out=target)
    session.bind("image", None)
    check(session, 4, found)
    assert played == [True]
    for _ in range(2):  # it is another player's that was traced
        check(session, 0, session.run(source, out=target))
    assert played == [True, True]
    session.close()
    with pytest.raises(InputError, match="closed"):
        session.run(source, out=target)


def test_behind_what_others_put_into_the_default_stream(
    session: fourfold.Session, played: list[bool]
) -> None:
    """They may, as soon as they know where the memory is."""
    source, first, target = array(session, 0), array(session, 0), targets(session)
    for _ in range(3):
        session.run(source, out=target)
    address = source.handle
    for seed in range(1, 4):
        first.memory.write(picture(seed))
        with context_of(session.device):
            default = cu.Stream.of(cu.DEFAULT_STREAM)
            default.copy(address, first.memory.handle, first.nbytes)
        check(session, seed, session.run(source, out=target))
    assert played == [True] * 4


def test_behind_a_run_in_flight(
    session: fourfold.Session, played: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have the arena: one comes after the other, whoever else knows of the memory."""
    source, target = array(session, 0), targets(session)
    for _ in range(3):
        session.run(source, out=target)
    assert source.handle
    streams, put = list[int](), LastRun.put

    def noted(self: LastRun, replay: Replay, stream: cu.Stream) -> None:
        assert stream.pointer is not None
        streams.append(stream.pointer.value or 0)
        put(self, replay, stream)

    monkeypatch.setattr(LastRun, "put", noted)
    found = session.run(source, out=target)
    assert streams == [cu.DEFAULT_STREAM]
    future = session.run_async(picture(7))
    found = session.run(source, out=target)
    assert streams[-1] != cu.DEFAULT_STREAM
    np.testing.assert_array_equal(future.result()["scores"], session.run(picture(7))["scores"])
    check(session, 0, found)
    assert played == [True] * 3


def test_a_launch_that_fails(session: fourfold.Session, played: list[bool]) -> None:
    failures = getattr(calls.library(), "failures", None)
    if failures is None:
        pytest.skip("a real driver does not fail when it is told to")
    source, target = array(session, 0), targets(session)
    for _ in range(3):
        session.run(source, out=target)
    failures[LAUNCH] = 304
    with pytest.raises(DeviceError, match="failed while running the model"):
        session.run(source, out=target)
    del failures[LAUNCH]
    check(session, 0, session.run(source, out=target))
    assert played == [True, True]
    assert calls.library().contexts == 0


class Tensor:
    """As much of a tensor of PyTorch's as is asked for, in memory of its own."""

    dtype, is_cuda, requires_grad, moved = "torch.float32", True, False, 0

    def __init__(self, device: DeviceInfo, array: np.ndarray) -> None:
        self.shape, self.nbytes = array.shape, array.nbytes
        self.memories = [OwnMemory(device, array.nbytes) for _ in range(2)]
        self.ordinal = device.ordinal
        for one in self.memories:
            one.write(array)

    def is_neg(self) -> bool:
        return False

    def is_contiguous(self) -> bool:
        return True

    def get_device(self) -> int:
        return self.ordinal

    def data_ptr(self) -> int:
        return self.memories[self.moved].address

    def numpy(self) -> np.ndarray:
        found = np.empty(self.shape, np.float32)
        self.memories[self.moved].read(found)
        return found


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """The current streams of an imagined torch."""
    found = {0: 0}
    module = SimpleNamespace(
        Tensor=Tensor, _C=SimpleNamespace(_cuda_getCurrentRawStream=found.__getitem__)
    )
    monkeypatch.setitem(sys.modules, "torch", module)
    return found


def test_tensors_that_move(
    session: fourfold.Session, played: list[bool], streams: dict[int, int]
) -> None:
    source = Tensor(session.device, picture(0))
    source.memories[1].write(picture(9))
    target = {
        info.name: Tensor(session.device, np.zeros(info.shape, np.float32))
        for info in session.outputs
    }
    for seed in (0, 0, 0, 0, 9, 9, 0):
        source.moved = int(seed == 9)
        check(session, seed, session.run(source, out=target))
    assert len(played) == 3
    target["twice"].moved = 1
    check(session, 0, session.run(source, out=target))
    target["twice"].shape = (5,)
    with pytest.raises(InputError, match="the memory for 'twice'"):
        session.run(source, out=target)
    target["twice"].shape = (1, 5)
    session.run(source, out=target)
    count = len(played)
    with context_of(session.device):
        other = cu.Stream()
    assert other.pointer is not None
    streams[0] = other.pointer.value or 0
    for _ in range(3):  # what is made in another stream is waited for each time
        check(session, 0, session.run(source, out=target))
    assert len(played) == count
    streams[0] = 0
    with context_of(session.device):
        other.release()

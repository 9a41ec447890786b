"""Repeated runs with the same device arrays take a shorter path."""

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


def random_image(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, SHAPE).astype(np.float32)


def copy_to_device(device: DeviceInfo, numbers: np.ndarray) -> DeviceArray:
    result = OwnMemory(device, numbers.nbytes)
    result.write(numbers)
    return DeviceArray(result, numbers.shape, numbers.dtype, device)


def device_image(session: fourfold.Session, seed: int) -> DeviceArray:
    return copy_to_device(session.device, random_image(seed))


def targets(session: fourfold.Session) -> dict[str, DeviceArray]:
    infos = session.outputs
    return {
        info.name: copy_to_device(session.device, np.zeros(info.shape, info.dtype))
        for info in infos
    }


@pytest.fixture
def session(cuda: DeviceInfo, monkeypatch: pytest.MonkeyPatch) -> Iterator[fourfold.Session]:
    monkeypatch.setenv("FOURFOLD_LAUNCHES", "one")
    with fourfold.Session(small_onnx(), cuda, cache="memory") as opened:
        yield opened


@pytest.fixture
def replays(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Record the result of every replay of a bound run."""
    result, play = list[bool](), BoundRun.play

    def recording_play(self: BoundRun) -> bool:
        result.append(play(self))
        return result[-1]

    monkeypatch.setattr(BoundRun, "play", recording_play)
    return result


def check_results(session: fourfold.Session, seed: int, found: dict[str, Any]) -> None:
    for name, expected in session.run(random_image(seed)).items():
        np.testing.assert_array_equal(found[name].numpy(), expected)


@pytest.mark.parametrize("form", ["alone", "list", "tuple", "dict"])
def test_third_run_with_the_same_arrays_is_replayed(
    session: fourfold.Session, replays: list[bool], form: str
) -> None:
    source, target = device_image(session, 0), targets(session)
    inputs: Any = {"list": [source], "tuple": (source,), "dict": {"image": source}}
    out: Any = target if form in ("alone", "dict") else list(target.values())
    for seed in range(5):
        source.memory.write(random_image(seed))
        for one in target.values():
            one.memory.write(np.full(one.shape, np.nan, np.float32))
        outputs = session.run(inputs.get(form, source), out=out)
        assert [outputs[name] for name in target] == list(target.values())
        check_results(session, seed, outputs)
    assert replays == [True] * 3


def test_other_arrays_are_checked_again(session: fourfold.Session, replays: list[bool]) -> None:
    sources, target, other = (
        [device_image(session, seed) for seed in range(3)],
        *map(targets, [session] * 2),
    )
    for seed in (0, 0, 0, 1, 0, 1, 1, 2):
        check_results(session, seed, session.run(sources[seed], out=target))
    assert len(replays) == 3
    check_results(session, 0, session.run(sources[0], out=other))  # known inputs with other outputs
    output = session.run(sources[0], out={"twice": other["twice"]})
    assert isinstance(output["scores"], np.ndarray)
    check_results(session, 0, session.run(sources[0], out=target))
    assert len(replays) == 3
    assert list(session.run(sources[0], outputs="scores", out=target["scores"])) == ["scores"]
    with pytest.raises(InputError, match="no input 'picture'"):
        session.run({"picture": sources[0]}, out=target)
    with pytest.raises(InputError, match="2 arrays were passed for 1 inputs"):
        session.run([sources[0], None], out=target)
    kept = session.run(sources[1], keep_on_device=True)
    check_results(session, 1, kept)


def test_replays_do_not_keep_arrays_alive(session: fourfold.Session, replays: list[bool]) -> None:
    source, target = device_image(session, 0), targets(session)
    for _ in range(4):
        session.run(source, out=target)
    assert replays == [True, True]
    references = [ref(one) for one in (source, source.memory, *target.values())]
    del source, target
    gc.collect()
    assert [one() for one in references] == [None] * len(references)
    # may have the same addresses as before
    source, target = device_image(session, 5), targets(session)
    for _ in range(3):
        check_results(session, 5, session.run(source, out=target))


@pytest.mark.parametrize(("count", "result"), [(5, {True, False}), (11, {True})])
def test_limits_cached_replays(
    session: fourfold.Session,
    replays: list[bool],
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    result: set[bool],
) -> None:
    """Covers the limits of the player and of the session."""
    monkeypatch.setattr(BoundMemory, "MAX_REPLAYS", 2)
    sources, target = [device_image(session, seed) for seed in range(count)], targets(session)
    for _ in range(3):
        for seed, source in enumerate(sources):
            for _ in range(3):
                check_results(session, seed, session.run(source, out=target))
    assert set(replays) == result


def test_tracing_binding_and_closing_end_replays(
    session: fourfold.Session, replays: list[bool]
) -> None:
    source, target = device_image(session, 0), targets(session)
    for _ in range(3):
        session.run(source, out=target)
    with session.trace() as trace:
        check_results(session, 0, session.run(source, out=target))
    assert "run" in {span.name for span in trace.spans}
    other = device_image(session, 4)
    session.bind("image", other)
    outputs = session.run({}, out=target)
    session.bind("image", None)
    check_results(session, 4, outputs)
    assert replays == [True]
    for _ in range(2):  # the traced run used another player
        check_results(session, 0, session.run(source, out=target))
    assert replays == [True, True]
    session.close()
    with pytest.raises(InputError, match="closed"):
        session.run(source, out=target)


def test_replays_run_after_work_on_the_default_stream(
    session: fourfold.Session, replays: list[bool]
) -> None:
    """Other code may enqueue work as soon as it knows the address."""
    source, first, target = device_image(session, 0), device_image(session, 0), targets(session)
    for _ in range(3):
        session.run(source, out=target)
    address = source.handle
    for seed in range(1, 4):
        first.memory.write(random_image(seed))
        with context_of(session.device):
            default = cu.Stream.of(cu.DEFAULT_STREAM)
            default.copy(address, first.memory.handle, first.nbytes)
        check_results(session, seed, session.run(source, out=target))
    assert replays == [True] * 4


def test_replays_run_after_a_run_in_flight(
    session: fourfold.Session, replays: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both runs use the arena, so one must follow the other."""
    source, target = device_image(session, 0), targets(session)
    for _ in range(3):
        session.run(source, out=target)
    assert source.handle
    streams, put = list[int](), LastRun.put

    def recording_put(self: LastRun, replay: Replay, stream: cu.Stream) -> None:
        assert stream.pointer is not None
        streams.append(stream.pointer.value or 0)
        put(self, replay, stream)

    monkeypatch.setattr(LastRun, "put", recording_put)
    outputs = session.run(source, out=target)
    assert streams == [cu.DEFAULT_STREAM]
    future = session.run_async(random_image(7))
    outputs = session.run(source, out=target)
    assert streams[-1] != cu.DEFAULT_STREAM
    np.testing.assert_array_equal(future.result()["scores"], session.run(random_image(7))["scores"])
    check_results(session, 0, outputs)
    assert replays == [True] * 3


def test_failed_replay_leaves_the_session_usable(
    session: fourfold.Session, replays: list[bool]
) -> None:
    failures = getattr(calls.library(), "failures", None)
    if failures is None:
        pytest.skip("only the fake driver can fail on request")
    source, target = device_image(session, 0), targets(session)
    for _ in range(3):
        session.run(source, out=target)
    failures[LAUNCH] = 304
    with pytest.raises(DeviceError, match="failed while running the model"):
        session.run(source, out=target)
    del failures[LAUNCH]
    check_results(session, 0, session.run(source, out=target))
    assert replays == [True, True]
    assert calls.library().contexts == 0


class Tensor:
    """The parts of a PyTorch tensor that are used, with its own memory."""

    dtype, is_cuda, requires_grad, moved = "torch.float32", True, False, 0

    def __init__(self, device: DeviceInfo, device_image: np.ndarray) -> None:
        self.shape, self.nbytes = device_image.shape, device_image.nbytes
        self.memories = [OwnMemory(device, device_image.nbytes) for _ in range(2)]
        self.ordinal = device.ordinal
        for one in self.memories:
            one.write(device_image)

    def is_neg(self) -> bool:
        return False

    def is_contiguous(self) -> bool:
        return True

    def get_device(self) -> int:
        return self.ordinal

    def data_ptr(self) -> int:
        return self.memories[self.moved].address

    def numpy(self) -> np.ndarray:
        result = np.empty(self.shape, np.float32)
        self.memories[self.moved].read(result)
        return result


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """Return the current streams of a fake torch module."""
    results = {0: 0}
    module = SimpleNamespace(
        Tensor=Tensor, _C=SimpleNamespace(_cuda_getCurrentRawStream=results.__getitem__)
    )
    monkeypatch.setitem(sys.modules, "torch", module)
    return results


def test_moved_tensors_are_checked_again(
    session: fourfold.Session, replays: list[bool], streams: dict[int, int]
) -> None:
    source = Tensor(session.device, random_image(0))
    source.memories[1].write(random_image(9))
    target = {
        info.name: Tensor(session.device, np.zeros(info.shape, np.float32))
        for info in session.outputs
    }
    for seed in (0, 0, 0, 0, 9, 9, 0):
        source.moved = int(seed == 9)
        check_results(session, seed, session.run(source, out=target))
    assert len(replays) == 3
    target["twice"].moved = 1
    check_results(session, 0, session.run(source, out=target))
    target["twice"].shape = (5,)
    with pytest.raises(InputError, match="the memory for 'twice'"):
        session.run(source, out=target)
    target["twice"].shape = (1, 5)
    session.run(source, out=target)
    count = len(replays)
    with context_of(session.device):
        other = cu.Stream()
    assert other.pointer is not None
    streams[0] = other.pointer.value or 0
    for _ in range(3):  # work on another stream is waited for each time
        check_results(session, 0, session.run(source, out=target))
    assert len(replays) == count
    streams[0] = 0
    with context_of(session.device):
        other.release()

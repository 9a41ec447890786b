"""Inputs that are handed over while kernels wait for them, and answers told by a flag."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from fourfold.backends import chunked_copy
from fourfold.backends.chunked_copy import ChunkedCopy
from fourfold.backends.host_handshake import CHUNK
from fourfold.backends.opencl import binding as cl
from fourfold.backends.opencl.devices import context_of
from fourfold.backends.opencl.ports import Ports
from fourfold.backends.opencl.slot import SlotMemory
from fourfold.device import DeviceInfo
from fourfold.plan import Buffer, Plan, Port, Program
from fourfold.plan.host_protocol import BYTES, DONE, LATE, PIECE, READY, pieces
from fourfold.types import DType, TensorType

SIZES = (
    3 * CHUNK // 4 + 7,
    1,
    CHUNK // 4,
)  # elements: several chunks and a rest, one number, one chunk


def random(size: int) -> np.ndarray:
    return np.random.default_rng(size).uniform(-1, 1, size).astype(np.float32)


class Kernel:
    """Plays the part of the kernel, in a thread: it takes pieces as they are there, in order."""

    def __init__(self, ports: Ports, patience: float = 10.0) -> None:
        self.ports, self.patience, self.launches = ports, patience, 0
        self.taken = [np.full(size, np.nan, np.float32) for size in SIZES]
        self.steps: list[int] = []
        self.threads: list[threading.Thread] = []

    def launch(self) -> None:
        self.launches += 1
        self.threads.append(threading.Thread(target=self.work))
        self.threads[-1].start()

    def work(self) -> None:
        assert self.ports._handshake is not None
        flags = self.ports._handshake._flags
        before = 0
        for number, taken in enumerate(self.taken):
            host = self.ports._host[2 + number]
            for piece in range(pieces(taken.nbytes)):
                late = time.monotonic() + self.patience
                while flags[READY] <= before + piece and time.monotonic() < late:
                    pass
                if flags[READY] <= before + piece:
                    flags[LATE] = 1
                start = piece * PIECE // 4
                taken[start : start + PIECE // 4] = host[start : start + PIECE // 4]
                self.steps.append(flags[READY])
            before += pieces(taken.nbytes)
        self.ports._host[5][0] = sum(float(taken.sum()) for taken in self.taken)
        flags[DONE] = 1

    def join(self) -> None:
        for thread in self.threads:
            thread.join()


def asking_plan() -> Plan:
    """A plan whose kernels fetch their inputs from the host, and tell it that they are done."""
    buffers = [Buffer("arena", "arena", 64), Buffer("constants", "constants", 64)]
    buffers += [Buffer(f"x{number}", "host", size * 4) for number, size in enumerate(SIZES)]
    buffers += [Buffer("y", "host", 4), Buffer("host_protocol", "host_protocol", BYTES)]
    inputs = [
        Port(f"x{number}", TensorType(DType.F32, (size,)), 2 + number)
        for number, size in enumerate(SIZES)
    ]
    output = Port("y", TensorType(DType.F32, (1,)), 5)
    constants = np.zeros(64, np.uint8)
    program = Program("", "")
    return Plan("p", program, tuple(buffers), (), tuple(inputs), (output,), constants, "fp32")


def buffers_of(context: cl.Context, plan: Plan) -> list[cl.Buffer]:
    return [cl.Buffer(context, -(-one.bytes // 64) * 64, host=True) for one in plan.buffers]


@pytest.fixture
def ports(device: DeviceInfo) -> Iterator[Ports]:
    plan, context = asking_plan(), context_of(device)
    ports = Ports(context, cl.Queue(context), device, plan, buffers_of(context, plan))
    for number in range(2, 6):
        ports._host[number][...] = 0
    yield ports
    ports.close()


def run(ports: Ports, kernel: Kernel, arrays: list[np.ndarray]) -> np.ndarray:
    ports.put(arrays, kernel.launch)
    while not ports.wait():
        kernel.launch()
    kernel.join()
    return ports.take()[0]


def test_kernels_get_inputs_while_they_come(ports: Ports) -> None:
    for number in range(5):
        kernel, arrays = Kernel(ports), [random(size) + number for size in SIZES]
        result = run(ports, kernel, arrays)
        for taken, array in zip(kernel.taken, arrays, strict=True):
            np.testing.assert_array_equal(taken, array)
        assert result[0] == np.float32(sum(float(array.sum()) for array in arrays))
        assert kernel.launches == 1
        assert kernel.steps == sorted(kernel.steps)


def test_a_launch_before_any_input_does_not_wait(ports: Ports) -> None:
    """Tuning replays plans that nobody has run."""
    kernel = Kernel(ports, patience=0.0)
    kernel.launch()
    kernel.join()
    assert ports._handshake is not None
    assert ports._handshake._flags[LATE] == 0


def test_arrays_that_do_not_lie_in_one_piece(ports: Ports) -> None:
    arrays = [np.repeat(random(size), 2)[::2] for size in SIZES]
    kernel = Kernel(ports)
    run(ports, kernel, arrays)
    np.testing.assert_array_equal(kernel.taken[0], arrays[0])


def test_a_kernel_that_gave_up_runs_once_more(
    ports: Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, arrays = Kernel(ports, patience=0.0), [random(size) for size in SIZES]

    class Late(ChunkedCopy):
        def copy(self, source: np.ndarray) -> Iterator[tuple[int, int]]:
            kernel.join()
            yield from super().copy(source)

    assert ports._handshake is not None
    late = [(Late(one.target, CHUNK), *rest) for one, *rest in ports._handshake._inputs]
    monkeypatch.setattr(ports._handshake, "_inputs", late)
    run(ports, kernel, arrays)
    assert kernel.launches == 2
    for taken, array in zip(kernel.taken, arrays, strict=True):
        np.testing.assert_array_equal(taken, array)


def test_a_caller_that_fails_leaves_no_kernel_waiting(ports: Ports) -> None:
    kernel, arrays = Kernel(ports), [random(size) for size in SIZES]
    with pytest.raises(ValueError, match="broadcast"):
        ports.put([arrays[0][:5], *arrays[1:]], kernel.launch)
    kernel.join()
    again = Kernel(ports)
    run(ports, again, arrays)
    np.testing.assert_array_equal(again.taken[0], arrays[0])


def no_pool() -> None:
    return None


@pytest.mark.parametrize("size", [0, 1, 4099, chunked_copy.THREADED_COPY_BYTES // 4 + 13])
@pytest.mark.parametrize("threads", [True, False])
def test_chunks_come_in_order_and_cover_all(
    size: int, threads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool: Callable[[], object] = chunked_copy.futures.ThreadPoolExecutor if threads else no_pool
    monkeypatch.setattr(chunked_copy, "_pool", pool)
    source, target = random(size), np.full(size, np.nan, np.float32)
    end = 0
    for start, stop in ChunkedCopy(target, 4096).copy(source):
        assert start == end
        np.testing.assert_array_equal(target[:stop], source[:stop])
        end = stop
    assert end == size


@pytest.mark.parametrize("size", [0, 4099, chunked_copy.THREADED_COPY_BYTES // 4 + 13])
def test_a_copy_is_a_new_array(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunked_copy, "_pool", chunked_copy.futures.ThreadPoolExecutor)
    source = random(size).reshape(1, size)
    made = chunked_copy.copied(source)
    assert made.base is None
    assert not np.shares_memory(made, source)
    np.testing.assert_array_equal(made, source)


def test_threads_that_take_no_more_work_are_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the interpreter ends, and other threads still run."""
    pool = chunked_copy.futures.ThreadPoolExecutor(4)
    monkeypatch.setattr(chunked_copy, "_pool", lambda: pool)
    source = random(chunked_copy.THREADED_COPY_BYTES // 2)
    made = ChunkedCopy(np.empty_like(source), 4096)
    pool.shutdown()
    assert [stop for _, stop in made.copy(source)][-1] == source.size
    np.testing.assert_array_equal(made.target, source)


@pytest.mark.parametrize(
    ("unified", "staged", "fetched"),
    [(True, True, True), (False, True, False), (True, False, False)],
)
def test_memory_that_was_handed_to_the_device_is_handed_back(
    device: DeviceInfo, unified: bool, staged: bool, fetched: bool
) -> None:
    """A kernel may tell that it is done, and inputs be mapped to nobody: then its word is not
    enough. Where inputs are copied, or kernels fetch them by themselves, it is.
    """
    plan, context = asking_plan(), context_of(device)
    info = replace(device, kind="gpu", unified_memory=unified)
    buffers = buffers_of(context, plan)
    memory = SlotMemory(context, cl.Queue(context), info, plan, buffers, staged)
    assert memory.is_fetched == fetched

"""Inputs that are handed over while kernels wait for them, and completion flags."""

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
)  # elements: several chunks and a remainder, one number, one chunk


def random(size: int) -> np.ndarray:
    return np.random.default_rng(size).uniform(-1, 1, size).astype(np.float32)


class Kernel:
    """Acts as the kernel in a thread: consumes pieces in order as they arrive."""

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


def fetching_plan() -> Plan:
    """Return a plan whose kernels fetch inputs from the host and signal completion."""
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
    plan, context = fetching_plan(), context_of(device)
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


def test_kernels_consume_inputs_while_they_arrive(ports: Ports) -> None:
    for number in range(5):
        kernel, arrays = Kernel(ports), [random(size) + number for size in SIZES]
        result = run(ports, kernel, arrays)
        for taken, array in zip(kernel.taken, arrays, strict=True):
            np.testing.assert_array_equal(taken, array)
        assert result[0] == np.float32(sum(float(array.sum()) for array in arrays))
        assert kernel.launches == 1
        assert kernel.steps == sorted(kernel.steps)


def test_launch_before_any_input_does_not_wait(ports: Ports) -> None:
    """Tuning replays plans that were never run."""
    kernel = Kernel(ports, patience=0.0)
    kernel.launch()
    kernel.join()
    assert ports._handshake is not None
    assert ports._handshake._flags[LATE] == 0


def test_accepts_non_contiguous_arrays(ports: Ports) -> None:
    arrays = [np.repeat(random(size), 2)[::2] for size in SIZES]
    kernel = Kernel(ports)
    run(ports, kernel, arrays)
    np.testing.assert_array_equal(kernel.taken[0], arrays[0])


def test_kernel_that_timed_out_runs_again(ports: Ports, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, arrays = Kernel(ports, patience=0.0), [random(size) for size in SIZES]

    class Late(ChunkedCopy):
        def copy(self, source: np.ndarray) -> Iterator[tuple[int, int]]:
            kernel.join()
            yield from super().copy(source)

    assert ports._handshake is not None
    late = [(Late(one.target, CHUNK), *arguments) for one, *arguments in ports._handshake._inputs]
    monkeypatch.setattr(ports._handshake, "_inputs", late)
    run(ports, kernel, arrays)
    assert kernel.launches == 2
    for taken, array in zip(kernel.taken, arrays, strict=True):
        np.testing.assert_array_equal(taken, array)


def test_failed_copy_leaves_no_kernel_waiting(ports: Ports) -> None:
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
def test_chunks_are_ordered_and_complete(
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
def test_copy_is_a_new_array(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunked_copy, "_pool", chunked_copy.futures.ThreadPoolExecutor)
    source = random(size).reshape(1, size)
    result = chunked_copy.copied(source)
    assert result.base is None
    assert not np.shares_memory(result, source)
    np.testing.assert_array_equal(result, source)


def test_copies_without_threads_after_shutdown(monkeypatch: pytest.MonkeyPatch) -> None:
    """This happens when the interpreter exits while other threads still run."""
    pool = chunked_copy.futures.ThreadPoolExecutor(4)
    monkeypatch.setattr(chunked_copy, "_pool", lambda: pool)
    source = random(chunked_copy.THREADED_COPY_BYTES // 2)
    result = ChunkedCopy(np.empty_like(source), 4096)
    pool.shutdown()
    assert [stop for _, stop in result.copy(source)][-1] == source.size
    np.testing.assert_array_equal(result.target, source)


@pytest.mark.parametrize(
    ("unified", "staged", "fetched"),
    [(True, True, True), (False, True, False), (True, False, False)],
)
def test_mapped_memory_is_synchronized_before_reuse(
    device: DeviceInfo, unified: bool, staged: bool, fetched: bool
) -> None:
    """A completion flag is not enough if inputs are unmapped for the device. It is enough if inputs
    are copied or fetched by kernels.
    """
    plan, context = fetching_plan(), context_of(device)
    info = replace(device, kind="gpu", unified_memory=unified)
    buffers = buffers_of(context, plan)
    memory = SlotMemory(context, cl.Queue(context), info, plan, buffers, staged)
    assert memory.is_fetched == fetched

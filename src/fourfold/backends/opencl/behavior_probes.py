"""Self-test of an OpenCL device, and probes of features beyond the OpenCL standard.

The self-test has kernels for each storage type, and one with many branches. The other probes run in
another process, where a hang or a crash does no harm: mapped buffers, kernels that access host
memory by address, and kernels that wait for each other or for the host.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from fourfold.backends.opencl import binding as cl
from fourfold.backends.opencl.devices import context_of
from fourfold.backends.opencl.feature_probes import Facts, Unanswered, succeeds, takes_addresses
from fourfold.backends.opencl.ports import ALIGNED
from fourfold.backends.opencl.program import build_text
from fourfold.backends.probe_data import (
    CHUNKS,
    ITEMS,
    SELF_TEST_SIZES,
    STAGES,
    chain,
    changed,
    numbers,
)
from fourfold.codegen.c_style.grid_barrier import STATE_WORDS
from fourfold.codegen.opencl import probes
from fourfold.codegen.opencl.claiming import GROUPS_EACH
from fourfold.device import DeviceInfo
from fourfold.errors import BuildError, DeviceError
from fourfold.plan import Program, host_protocol
from fourfold.support.log import Log

log = Log("backends.opencl")
_RUNS = 3


SIZES = (1, 5, 1 << 16)  # work-items with four values each
RUNS = 4  # with different values each


class ProbeKernels:
    """Probe kernels on one device, by name, and a queue to run them on."""

    def __init__(self, info: DeviceInfo, programs: Mapping[str, Program]) -> None:
        self.context = context_of(info)
        self.queue = cl.Queue(self.context)
        self._programs = programs
        self._all = self._build_all()

    def _build_all(self) -> cl.Program | None:
        """Build all kernels in one program; None if that fails."""
        try:
            return build_text(self.context, probes.joined(self._programs.values()))
        except BuildError as error:  # then build each by itself
            log.debug("probe kernels are built one by one: %s: %s", error.what, error.why)
            return None

    def kernel(self, name: str) -> cl.Kernel:
        """Return one of the kernels; raises a BuildError if it does not build by itself either."""
        program = self._all
        if program is None:
            program = build_text(self.context, self._programs[name])
        return cl.Kernel(program, name)

    def launch(self, kernel: cl.Kernel, items: int) -> None:
        self.queue.replay([self.queue.call(kernel, (items,), (1,))])


def open_kernels(info: DeviceInfo, programs: Mapping[str, Program]) -> ProbeKernels:
    """Build probe kernels; errors before any of them runs are not an answer."""
    try:
        return ProbeKernels(info, programs)
    except (cl.Error, DeviceError) as error:
        raise Unanswered(str(error)) from error


def try_self_test(info: DeviceInfo, kernels: ProbeKernels) -> Facts:
    """Return which of the `SELF_TESTS` fail."""
    wrong = [name for name, passes in _self_tests(info, kernels) if not succeeds(passes)]
    return {"self_test": ", ".join(wrong)}


def _self_tests(
    info: DeviceInfo, kernels: ProbeKernels
) -> Iterator[tuple[str, Callable[[], bool]]]:
    for name in probes.SELF_TEST:
        yield name, lambda name=name: _computes(kernels, name)  # type: ignore[misc]
    if info.is_discrete:
        yield "staging", lambda: _stages(kernels)


def _computes(kernels: ProbeKernels, name: str) -> bool:
    """Return True if arrays copied by the driver have the right results."""
    queue, kernel = kernels.queue, kernels.kernel(name)
    for items in SELF_TEST_SIZES[name]:
        array = numbers(name, items, 0)
        source = cl.Buffer(kernels.context, array.nbytes)
        target = cl.Buffer(kernels.context, array.nbytes)
        set_buffers(kernel, source, target)
        for run in range(_RUNS):
            array, result = numbers(name, items, run), np.zeros_like(array)
            queue.write(source, array, wait=False)
            kernels.launch(kernel, items)
            queue.read(target, result)
            if not np.array_equal(result, changed(array)):
                return False
    return True


def _stages(kernels: ProbeKernels) -> bool:
    """Return True if copies from and to mapped host memory are right."""
    queue, kernel, items = kernels.queue, kernels.kernel("floats"), max(SELF_TEST_SIZES["floats"])
    size = numbers("floats", items, 0).nbytes
    source, target = cl.Buffer(kernels.context, size), cl.Buffer(kernels.context, size)
    pinned = [cl.Buffer(kernels.context, size, host=True) for _ in range(2)]
    memories = [queue.map(buffer, size) for buffer in pinned]
    before, after = (np.frombuffer(memory, np.float32) for memory in memories)
    set_buffers(kernel, source, target)
    right = True
    for run in range(_RUNS):
        before[:] = numbers("floats", items, run)
        queue.write(source, before, wait=False)
        kernels.launch(kernel, items)
        queue.read(target, after, wait=False)
        queue.finish()
        right = right and np.array_equal(after, changed(before))
    for buffer, memory in zip(pinned, memories, strict=True):
        queue.unmap(buffer, memory)
    queue.finish()
    return right


def set_buffers(kernel: cl.Kernel, source: cl.Buffer, target: cl.Buffer) -> None:
    """Let a kernel read and write two buffers from their starts."""
    for position, buffer in ((0, source), (2, target)):
        kernel.set_buffer(position, buffer)
        kernel.set_long(position + 1, 0)


def try_unpromised(info: DeviceInfo) -> Iterator[Facts]:
    """Run the probes one after the other, since each may crash the driver; the riskiest is last."""
    kernels = open_kernels(info, {**probes.SELF_TEST, **probes.CLAIMS})
    yield try_self_test(info, kernels)
    yield {"persistent_mapping": succeeds(lambda: _sees_mapped(kernels))}
    groups = info.compute_units * GROUPS_EACH
    yield {"forward_progress": succeeds(lambda: _makes_progress(kernels, groups))}
    yield {"host_pointers": takes_addresses(info) and succeeds(lambda: _reaches_arrays(kernels))}


def _sees_mapped(kernels: ProbeKernels) -> bool:
    """Return True if kernels, host and driver see each other's writes to mapped buffers."""
    return all(_sees_buffers(kernels, items) for items in SIZES)


def _sees_buffers(kernels: ProbeKernels, items: int) -> bool:
    queue, kernel, start = kernels.queue, kernels.kernel("floats"), numbers("floats", items, 9)
    source = cl.Buffer.of(kernels.context, start, writable=True)
    target = cl.Buffer(kernels.context, start.nbytes)
    maps = [(buffer, queue.map(buffer, start.nbytes)) for buffer in (source, target)]
    before, after = (np.frombuffer(memory, np.float32) for _, memory in maps)
    set_buffers(kernel, source, target)
    right = np.array_equal(before, start)
    for run in range(RUNS):
        before[:] = numbers("floats", items, run)
        kernels.launch(kernel, items)
        queue.finish()
        right = right and np.array_equal(after, changed(before))
    right = right and _driver_sees(queue, maps)
    for buffer, memory in maps:
        queue.unmap(buffer, memory)
    queue.finish()
    return right


def _driver_sees(queue: cl.Queue, maps: list[tuple[cl.Buffer, cl.Memory]]) -> bool:
    """Return True if the driver fills and reads mapped buffers correctly."""
    (source, inputs), (target, outputs) = maps
    queue.fill(target, b"\x07\x07\x07\x07", 0, len(outputs))
    read_back = np.empty(len(inputs), np.uint8)
    queue.read(source, read_back)
    filled = np.frombuffer(outputs, np.uint8)
    return bool((filled == 7).all() and np.array_equal(read_back, np.frombuffer(inputs, np.uint8)))


def _reaches_arrays(kernels: ProbeKernels) -> bool:
    """Return True if kernels access arrays by address alone."""
    kernel = kernels.kernel("floats")
    kernel.set_buffer(0, None)
    kernel.set_buffer(2, None)
    for items in SIZES:
        for run in range(RUNS):
            before = _aligned(numbers("floats", items, run))
            after = _aligned(np.zeros_like(before))
            kernel.set_long(1, before.ctypes.data)
            kernel.set_long(3, after.ctypes.data)
            kernels.launch(kernel, items)
            kernels.queue.finish()
            if not np.array_equal(after, changed(before)):
                return False
    return True


def _aligned(array: np.ndarray) -> np.ndarray:
    """Return an aligned copy that a kernel can read."""
    padded = np.empty(array.nbytes + ALIGNED, np.uint8)
    start = -padded.ctypes.data % ALIGNED
    aligned = padded[start : start + array.nbytes].view(array.dtype)
    aligned[:] = array
    return aligned


def _makes_progress(kernels: ProbeKernels, groups: int) -> bool:
    """Return True if groups that wait for chunks claimed by others finish and see their writes."""
    queue, kernel, context = kernels.queue, kernels.kernel("claims"), kernels.context
    counters, expected = np.zeros(2 * STAGES, np.int32), chain()
    for _ in range(RUNS):
        values = np.zeros_like(expected)
        values[0] = expected[0]
        state = cl.Buffer.of(context, counters, writable=True)
        memory = cl.Buffer.of(context, values, writable=True)
        set_buffers(kernel, state, memory)
        kernel.set_int(4, STAGES)
        kernel.set_int(5, CHUNKS)
        kernels.launch(kernel, groups)
        queue.read(memory, values)
        if not np.array_equal(values, expected):
            return False
    return True


def try_waiting(info: DeviceInfo) -> Facts:
    """Probe whether groups can wait for each other, and for the host."""
    resident = succeeds(lambda: _is_resident(info))
    can_try = resident and takes_addresses(info)
    reaches = can_try and succeeds(lambda: _reaches_host(info) and _exchanges_with_host(info))
    return {"resident": resident, "reaches_host": reaches}


def _is_resident(info: DeviceInfo) -> bool:
    """Return True if one group per unit is resident, and sees what others wrote
    before a barrier.
    """
    context, groups = context_of(info), info.compute_units
    queue = cl.Queue(context)
    program = build_text(context, probes.ROUNDS)
    state, out = (
        cl.Buffer.of(context, np.zeros(size, np.int32), writable=True) for size in (64, groups)
    )
    kernel = cl.Kernel(program, "rounds")
    set_buffers(kernel, state, out)
    queue.replay([queue.call(kernel, (groups * ITEMS,), (ITEMS,))])
    result = np.full(groups, -1, np.int32)
    queue.read(out, result)
    return bool(np.array_equal(result, np.arange(groups)))


def _reaches_host(info: DeviceInfo) -> bool:
    """Return True if a kernel accesses mapped host memory by address alone."""
    context = context_of(info)
    queue = cl.Queue(context)
    program = build_text(context, probes.ADDRESS)
    buffer = cl.Buffer(context, ITEMS * 4, host=True)
    memory = np.frombuffer(queue.map(buffer, ITEMS * 4), np.int32)
    kernel = cl.Kernel(program, "address")
    kernel.set_buffer(0, None)
    kernel.set_long(1, memory.ctypes.data)
    for number in range(20):
        memory[:] = np.arange(ITEMS) + number
        queue.replay([queue.call(kernel, (ITEMS,), (ITEMS,))])
        queue.finish()
        if not np.array_equal(memory, (np.arange(ITEMS) + number) * 3 + 1):
            return False
    return True


def _exchanges_with_host(info: DeviceInfo) -> bool:
    """Return True if a running kernel sees writes of the host, and the host its answer.

    Python has no memory fences: only on x86 are its writes visible in program order.
    """
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    context = context_of(info)
    queue = cl.Queue(context)
    program = build_text(context, probes.ANSWER)
    state = cl.Buffer.of(context, np.zeros(STATE_WORDS, np.int32), writable=True)
    buffer = cl.Buffer(context, host_protocol.BYTES, host=True)
    memory = np.frombuffer(queue.map(buffer, host_protocol.BYTES), np.int32)
    kernel = cl.Kernel(program, "answer")
    kernel.set_buffer(0, state)
    kernel.set_buffer(1, None)
    kernel.set_long(2, memory.ctypes.data)
    for _ in range(5):
        memory[:] = 0
        queue.replay([queue.call(kernel, (info.compute_units * ITEMS,), (ITEMS,))])
        queue.flush()
        time.sleep(0.001)
        early = memory[host_protocol.DONE]
        memory[host_protocol.READY] = 1
        queue.finish()
        if early or memory[host_protocol.LATE] or not memory[host_protocol.DONE]:
            return False
    return True

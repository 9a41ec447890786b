"""Probes of features beyond the OpenCL standard, run where a crash does no harm."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.kernel.opencl import probes
from fourfold.kernel.opencl.claiming import GROUPS_EACH
from fourfold.players.opencl import binding as cl
from fourfold.players.opencl.ports import ALIGNED
from fourfold.players.opencl.self_test import (
    TrialKernels,
    open_kernels,
    set_buffers,
    try_self_test,
)
from fourfold.players.opencl.trials import Facts, succeeds, takes_addresses
from fourfold.players.trial_answers import CHUNKS, STAGES, chain, changed, numbers

SIZES = (1, 5, 1 << 16)  # work-items with four values each
RUNS = 4  # with different values each


def try_unpromised(info: DeviceInfo) -> Iterator[Facts]:
    """Run the probes one after the other, since each may crash the driver; the riskiest is last."""
    kernels = open_kernels(info, {**probes.SELF_TEST, **probes.CLAIMS})
    yield try_self_test(info, kernels)
    yield {"persistent_mapping": succeeds(lambda: _sees_mapped(kernels))}
    groups = info.compute_units * GROUPS_EACH
    yield {"forward_progress": succeeds(lambda: _makes_progress(kernels, groups))}
    yield {"host_pointers": takes_addresses(info) and succeeds(lambda: _reaches_arrays(kernels))}


def _sees_mapped(kernels: TrialKernels) -> bool:
    """Return True if kernels, host and driver see each other's writes to mapped buffers."""
    return all(_sees_buffers(kernels, items) for items in SIZES)


def _sees_buffers(kernels: TrialKernels, items: int) -> bool:
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


def _reaches_arrays(kernels: TrialKernels) -> bool:
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


def _makes_progress(kernels: TrialKernels, groups: int) -> bool:
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

"""Trials of what OpenCL does not promise and some drivers bear: made where a crash is no harm."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.kernel.opencl import probes
from fourfold.kernel.opencl.claiming import GROUPS_EACH
from fourfold.players.opencl import binding as cl
from fourfold.players.opencl.self_test import (
    TrialKernels,
    open_kernels,
    set_buffers,
    try_self_test,
)
from fourfold.players.opencl.trials import Facts, succeeds, takes_addresses
from fourfold.players.opencl.zero_copy import ALIGNED
from fourfold.players.trial_answers import CHUNKS, STAGES, chain, changed, numbers

SIZES = (1, 5, 1 << 16)  # work-items of four numbers each
RUNS = 4  # with other numbers each time


def try_unpromised(info: DeviceInfo) -> Iterator[Facts]:
    """One after the other, since a driver may die of any of them; the most dangerous is last."""
    kernels = open_kernels(info, {**probes.SELF_TEST, **probes.CLAIMS})
    yield try_self_test(info, kernels)
    yield {"persistent_mapping": succeeds(lambda: _sees_mapped(kernels))}
    groups = info.compute_units * GROUPS_EACH
    yield {"forward_progress": succeeds(lambda: _goes_on(kernels, groups))}
    yield {"host_pointers": takes_addresses(info) and succeeds(lambda: _reaches_arrays(kernels))}


def _sees_mapped(kernels: TrialKernels) -> bool:
    """Whether kernels and host see what the other wrote into buffers that are mapped all the time,
    and so does the driver when it fills or copies such a buffer.
    """
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
    """Whether a buffer is filled, and read, where it is mapped."""
    (source, inputs), (target, outputs) = maps
    queue.fill(target, b"\x07\x07\x07\x07", 0, len(outputs))
    found = np.empty(len(inputs), np.uint8)
    queue.read(source, found)
    filled = np.frombuffer(outputs, np.uint8)
    return bool((filled == 7).all() and np.array_equal(found, np.frombuffer(inputs, np.uint8)))


def _reaches_arrays(kernels: TrialKernels) -> bool:
    """Whether kernels read and write arrays of which they know the addresses alone."""
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
    """The same numbers where a kernel may read them."""
    room = np.empty(array.nbytes + ALIGNED, np.uint8)
    start = -room.ctypes.data % ALIGNED
    made = room[start : start + array.nbytes].view(array.dtype)
    made[:] = array
    return made


def _goes_on(kernels: TrialKernels, groups: int) -> bool:
    """Whether groups that wait for chunks which others have claimed come to an end, and see what
    those wrote.
    """
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

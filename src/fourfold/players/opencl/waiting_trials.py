"""Probes of kernels that wait for each other or for the host, run where a hang does no harm."""

from __future__ import annotations

import platform
import time

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.kernel.c_style.grid_barrier import STATE_WORDS
from fourfold.kernel.opencl import probes
from fourfold.plan import host_protocol
from fourfold.players.opencl import binding as cl
from fourfold.players.opencl.devices import context_of
from fourfold.players.opencl.program import build_text
from fourfold.players.opencl.self_test import set_buffers
from fourfold.players.opencl.trials import Facts, succeeds, takes_addresses
from fourfold.players.trial_answers import ITEMS


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
    for trial in range(20):
        memory[:] = np.arange(ITEMS) + trial
        queue.replay([queue.call(kernel, (ITEMS,), (ITEMS,))])
        queue.finish()
        if not np.array_equal(memory, (np.arange(ITEMS) + trial) * 3 + 1):
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

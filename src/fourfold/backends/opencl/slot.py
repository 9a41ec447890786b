"""Slot: memory and kernels of one run in flight."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fourfold.backends.chunked_copy import copied
from fourfold.backends.opencl import binding as cl
from fourfold.backends.opencl.arguments import BoundKernels, BufferLocation, counts_bytes
from fourfold.backends.opencl.launch_queue import LaunchQueue
from fourfold.backends.opencl.port_memory import (
    CopiedMemory,
    MappedMemory,
    PinnedMemory,
    PortMemory,
    SharedMemory,
)
from fourfold.backends.port_buffers import port_buffers
from fourfold.device import DeviceInfo
from fourfold.errors import FourfoldError
from fourfold.plan import Plan, Port, padded
from fourfold.plan.host_protocol import DONE, READY, pieces

MAX_POLLS = 20000  # polls of the completion flag without a pause
# Seconds between further polls, and their number; then block in the driver.
PAUSE_S, MAX_PAUSES = 5e-5, 4000
DOING = "running the model"
Guard = Callable[[str, Callable[[], Any]], Any]


class SlotQueues(NamedTuple):
    """Queues for launches and uploads of runs in flight.

    On a discrete GPU that runs a plan as one launch, uploads have a separate queue, so that inputs
    of the next run are copied meanwhile. Otherwise submitting many launches takes longer than the
    uploads.
    """

    launches: LaunchQueue
    uploads: cl.Queue

    @staticmethod
    def of(context: cl.Context, launches: LaunchQueue, info: DeviceInfo, plan: Plan) -> SlotQueues:
        separate = info.is_discrete and counts_bytes(plan)
        return SlotQueues(launches, cl.Queue(context) if separate else launches.queue)


class SlotMemory:
    """The memory of every port of a plan, for one run in flight.

    A CPU whose buffers may stay mapped shares it. A GPU that shares the host's memory maps it back
    and forth. A discrete GPU copies from and to pinned memory, unless the plan's kernels access
    host memory themselves: they write outputs there, and read inputs from there unless these are
    `staged`, that is copied before the kernel starts, while others run.
    """

    def __init__(
        self,
        context: cl.Context,
        queue: cl.Queue,
        info: DeviceInfo,
        plan: Plan,
        buffers: Sequence[cl.Buffer],
        staged: bool,
    ) -> None:
        self._context, self._queue, self._info, self._plan = context, queue, info, plan
        self._buffers, self._staged, self._own = buffers, staged, port_buffers(plan)
        inputs = {port.buffer for port in plan.inputs}
        outputs = {port.buffer for port in plan.outputs}
        self._directions = {n: (n in inputs, n in outputs) for n in inputs | outputs}
        self.ports: dict[int, PortMemory] = {}
        for port in (*plan.inputs, *plan.outputs):
            if port.buffer not in self.ports:
                self.ports[port.buffer] = self._make(port)
        self.flags: memoryview | None = None
        kinds = [buffer.kind for buffer in plan.buffers]
        self._protocol = kinds.index("host_protocol") if "host_protocol" in kinds else None
        if self._protocol is not None:
            self._make_flags(self._protocol)

    def _make(self, port: Port) -> PortMemory:
        info, size, directions = self._info, padded(port.type.bytes), self._directions[port.buffer]
        reached = self._plan.buffers[port.buffer].kind == "host"
        if port.buffer not in self._own:
            memory = np.empty(size, np.uint8)
            return CopiedMemory(self._buffers[port.buffer], memory, port, directions)
        if reached and not (self._staged and directions[0]):
            return SharedMemory(self._context, self._queue, port, by_address=True)
        if info.is_cpu and info.persistent_mapping:
            return SharedMemory(self._context, self._queue, port, by_address=False)
        if info.kind == "gpu" and info.unified_memory:
            return MappedMemory(self._context, self._queue, port)
        tested = info.knows("self_test") and "staging" not in info.self_test
        if info.is_discrete and tested:
            memory = np.asarray(PinnedMemory(self._context, self._queue, size))
        else:
            memory = np.empty(size, np.uint8)
        return CopiedMemory(cl.Buffer(self._context, size), memory, port, directions)

    @property
    def is_fetched(self) -> bool:
        """Return True if outputs have to be transferred after the last kernel, or mapped memory has
        to be passed back to the host.
        """
        outputs = [self.ports[port.buffer] for port in self._plan.outputs]
        if any(isinstance(one, MappedMemory) for one in self.ports.values()):
            return True
        return not all(isinstance(one, SharedMemory) for one in outputs)

    def _make_flags(self, number: int) -> None:
        """Create flags that tell a kernel that all of its inputs are ready."""
        size = self._plan.buffers[number].bytes
        self._flags = np.asarray(PinnedMemory(self._context, self._queue, size))
        self._flags[:] = 0
        self.flags = self._flags.data.cast("I")
        kinds = self._plan.buffers
        hosted = [p for p in self._plan.inputs if kinds[p.buffer].kind == "host"]
        self.flags[READY] = sum(pieces(port.type.bytes) for port in hosted)

    def locations(self) -> dict[int, BufferLocation]:
        """Return the locations of all buffers."""
        locations = {number: memory.location for number, memory in self.ports.items()}
        if self._protocol is not None:
            locations[self._protocol] = BufferLocation(None, self._flags.ctypes.data)
        return locations


class Slot:
    """One run in flight; see the protocol. `guard` converts errors of the driver."""

    def __init__(
        self,
        memory: SlotMemory,
        plan: Plan,
        queues: SlotQueues,
        bound: BoundKernels,
        calls: list[cl.Call],
        guard: Guard,
    ) -> None:
        self._memory, self._queues, self._bound, self._calls = memory, queues, bound, calls
        self._guard = guard
        # Completion flags set by the kernel.
        self._flags = None if memory.is_fetched else memory.flags
        self.inputs = tuple(memory.ports[port.buffer].host for port in plan.inputs)
        self.outputs = tuple(memory.ports[port.buffer].host for port in plan.outputs)
        self._running = False
        self._done: cl.Event | None = None  # set unless the kernel's flag is polled

    def begin(self, arrays: Sequence[np.ndarray | None], spin: bool = False) -> None:
        self.end()  # the caller may have stopped waiting for the previous run
        for host, array in zip(self.inputs, arrays, strict=True):
            if array is not None:
                copied(array, host)
        self._running = True
        try:
            self._guard(DOING, partial(self._put_in, spin))
        except BaseException:  # also for Ctrl-C: the driver may still use memory of this slot
            with suppress(cl.Error):
                self._queues.uploads.finish()
                self._queues.launches.queue.finish()
            self._running = False
            raise

    def _put_in(self, spin: bool) -> None:
        """Submit a run. Each queue is flushed, since other queues wait for it and nothing else does
        here.

        Only drivers whose kernels communicate with the host are known to start launches without a
        flush.
        """
        memory, (launches, uploads) = self._memory, self._queues
        sent = [port.send(uploads) for port in memory.ports.values()]
        before = next((event for event in reversed(sent) if event is not None), None)
        if uploads is launches.queue:
            before = None
        elif before is not None:
            uploads.flush()
        if memory.flags is not None:
            memory.flags[DONE] = 0
        if spin and self._flags is not None:
            launches.launch(self._calls, before)
            return
        self._done = launches.launch_watched(self._calls, before)
        if self._flags is None:
            fetched = [port.fetch(launches.queue) for port in memory.ports.values()]
            last_events = (event for event in reversed(fetched) if event is not None)
            self._done = next(last_events, self._done)
        launches.queue.flush()

    @property
    def done(self) -> bool:
        flags, done = self._flags, self._done
        if not self._running or (flags is not None and flags[DONE]):
            return True
        return done is not None and bool(self._guard(DOING, lambda: done.done))

    def end(self, spin: bool = False) -> Sequence[np.ndarray]:
        if self._running and not ((spin or self._done is None) and self._spin()):
            wait = self._queues.launches.queue.finish if self._done is None else self._done.wait
            self._guard(DOING, wait)
        self._running, self._done = False, None
        return self.outputs

    def _spin(self) -> bool:
        """Poll the kernel's completion flag: first without a pause, then with pauses."""
        flags = self._flags
        if flags is None:
            return False
        if any(flags[DONE] for _ in range(MAX_POLLS)):
            return True
        for _ in range(MAX_PAUSES):
            time.sleep(PAUSE_S)
            if flags[DONE]:
                return True
        return False

    def close(self) -> None:
        with suppress(FourfoldError):  # errors are reported to the waiter of the run
            self.end()
        self._calls = []

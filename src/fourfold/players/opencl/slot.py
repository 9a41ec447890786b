"""A slot: memory for what goes in and out of one run in flight, and kernels that know it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.errors import FourfoldError
from fourfold.plan import Plan, Port, padded
from fourfold.plan.host_protocol import DONE, READY, pieces
from fourfold.players.chunked_copy import copied
from fourfold.players.opencl import binding as cl
from fourfold.players.opencl.arguments import BoundKernels, Place, counts_bytes
from fourfold.players.opencl.launch_queue import LaunchQueue
from fourfold.players.opencl.port_memory import (
    CopiedMemory,
    MappedMemory,
    PinnedMemory,
    PortMemory,
    SharedMemory,
)
from fourfold.players.port_buffers import port_buffers

MOST_POLLS = 20000  # of the flag that the kernel is done, without a pause
PAUSE, MOST_PAUSES = 5e-5, 4000  # seconds, then; at last the driver waits
DOING = "running the model"
Guard = Callable[[str, Callable[[], Any]], Any]


class SlotQueues(NamedTuple):
    """Where runs in flight put in their launches, and their uploads: in a queue beside that where a
    GPU has one launch for all of a run, during which the next one's inputs come. Many launches take
    the host longer than uploads take.
    """

    launches: LaunchQueue
    uploads: cl.Queue

    @staticmethod
    def of(context: cl.Context, launches: LaunchQueue, info: DeviceInfo, plan: Plan) -> SlotQueues:
        beside = info.is_discrete and counts_bytes(plan)
        return SlotQueues(launches, cl.Queue(context) if beside else launches.queue)


class SlotMemory:
    """The memory of every port of a plan, for one run in flight.

    A CPU whose buffers may stay mapped shares it. A GPU that shares the host's memory is handed it
    and hands it back. A GPU with memory of its own gets copies of pinned memory, unless the plan's
    kernels reach host memory by themselves: outputs are written there, and inputs are read from
    there, or are `staged`: copied before the kernel begins, while others still run.
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
        self._ways = {n: (n in inputs, n in outputs) for n in inputs | outputs}
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
        info, size, ways = self._info, padded(port.type.bytes), self._ways[port.buffer]
        reached = self._plan.buffers[port.buffer].kind == "host"
        if port.buffer not in self._own:
            memory = np.empty(size, np.uint8)
            return CopiedMemory(self._buffers[port.buffer], memory, port, ways)
        if reached and not (self._staged and ways[0]):
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
        return CopiedMemory(cl.Buffer(self._context, size), memory, port, ways)

    @property
    def is_fetched(self) -> bool:
        """Whether, when the last kernel is done, outputs are not yet where the host finds them, or
        memory that was handed to the device has to be handed back.
        """
        outputs = [self.ports[port.buffer] for port in self._plan.outputs]
        if any(isinstance(one, MappedMemory) for one in self.ports.values()):
            return True
        return not all(isinstance(one, SharedMemory) for one in outputs)

    def _make_flags(self, number: int) -> None:
        """Flags that tell a kernel that all of its inputs are there."""
        size = self._plan.buffers[number].bytes
        self._flags = np.asarray(PinnedMemory(self._context, self._queue, size))
        self._flags[:] = 0
        self.flags = self._flags.data.cast("I")
        kinds = self._plan.buffers
        hosted = [p for p in self._plan.inputs if kinds[p.buffer].kind == "host"]
        self.flags[READY] = sum(pieces(port.type.bytes) for port in hosted)

    def places(self) -> dict[int, Place]:
        """Where kernels find each buffer."""
        found = {number: memory.place for number, memory in self.ports.items()}
        if self._protocol is not None:
            found[self._protocol] = Place(None, self._flags.ctypes.data)
        return found


class Slot:
    """One run in flight; see the protocol. `guard` makes errors of the driver our own."""

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
        self._flags = None if memory.is_fetched else memory.flags  # by which the kernel tells
        self.inputs = tuple(memory.ports[port.buffer].host for port in plan.inputs)
        self.outputs = tuple(memory.ports[port.buffer].host for port in plan.outputs)
        self._running = False
        self._done: cl.Event | None = None  # of the run, unless the kernel's word is waited for

    def begin(self, arrays: Sequence[np.ndarray | None], spin: bool = False) -> None:
        self.end()  # somebody may have stopped waiting for the run before
        for host, array in zip(self.inputs, arrays, strict=True):
            if array is not None:
                copied(array, host)
        self._running = True
        try:
            self._guard(DOING, partial(self._put_in, spin))
        except BaseException:  # Ctrl-C, too: the driver may still use memory of this slot
            with suppress(cl.Error):
                self._queues.uploads.finish()
                self._queues.launches.queue.finish()
            self._running = False
            raise

    def _put_in(self, spin: bool) -> None:
        """Each queue is told to begin, since the others wait for it and nobody waits here. Only a
        driver whose kernels speak with the host is known to begin with launches by itself.
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
            ends = (event for event in reversed(fetched) if event is not None)
            self._done = next(ends, self._done)
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
        """Look again and again whether the kernel says that it is done: without a pause, and now
        and then when that took long.
        """
        flags = self._flags
        if flags is None:
            return False
        if any(flags[DONE] for _ in range(MOST_POLLS)):
            return True
        for _ in range(MOST_PAUSES):
            time.sleep(PAUSE)
            if flags[DONE]:
                return True
        return False

    def close(self) -> None:
        with suppress(FourfoldError):  # whoever waits for the run gets it
            self.end()
        self._calls = []

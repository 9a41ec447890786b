"""Player whose runs are traced: the host's work, and launches by the device's clock."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from ctypes import byref, c_void_p
from typing import Any

import numpy as np

from fourfold.backends.opencl import binding as cl
from fourfold.backends.opencl.launch_queue import LaunchQueue, launch_queue
from fourfold.backends.opencl.player import Player
from fourfold.backends.protocol import Outputs
from fourfold.backends.traced_run import TracedRun
from fourfold.device import DeviceInfo
from fourfold.plan import Plan
from fourfold.support.trace import Trace


class ClockedPlayer(Player):
    """Player for plans with clocks."""

    def read_clocks(self) -> np.ndarray:
        """Return what each work-group recorded in the last run."""
        clocks = self.plan.clocks
        assert clocks is not None
        notes, memory = np.empty(clocks.shape, np.int64), self._buffers[clocks.buffer]
        self._guard("reading clocks", lambda: self._queue.read(memory, notes, clocks.offset))
        return notes


class PutIn:
    """Launches that were submitted: when, and the events of each if profiled."""

    def __init__(self) -> None:
        self.began, self.ended = time.perf_counter(), 0.0
        self.events: list[cl.Event] = []
        self.waited: float | None = None
        self.notes: np.ndarray | None = None

    def as_run(self, zero: int) -> TracedRun:
        """Return its times in seconds relative to `zero`: floats are too imprecise for absolute
        times.
        """
        queued = (self.events[0].queued - zero) * 1e-9 if self.events else None
        pairs = [event.span for event in self.events]
        spans = tuple(((began - zero) * 1e-9, (ended - zero) * 1e-9) for began, ended in pairs)
        return TracedRun((self.began, self.ended), queued, self.waited, spans, self.notes)


class TracedQueue(LaunchQueue):
    """Records submitted launches. A queue shared with other players has no device times."""

    def __init__(self, context: cl.Context, info: DeviceInfo, plan: Plan) -> None:
        self._timed = not (plan.requirements.resident_groups or info.shared_queue)
        if self._timed:
            super().__init__(cl.Queue(context, profiling=True), nullcontext())
        else:
            shared = launch_queue(context, plan, info.shared_queue)
            super().__init__(shared.queue, shared.lock)
        self.put_in: list[PutIn] = []

    def launch(self, calls: Sequence[cl.Call], after: cl.Event | None = None) -> None:
        one = PutIn()
        handles = [c_void_p() for _ in calls] if self._timed else []
        if self._timed:
            pairs = zip(calls, handles, strict=True)
            calls = [(*call[:-1], byref(handle)) for call, handle in pairs]
        super().launch(calls, after)
        one.events = [cl.Event(handle) for handle in handles]
        one.ended = time.perf_counter()
        self.put_in.append(one)

    def launch_watched(self, calls: Sequence[cl.Call], after: cl.Event | None) -> cl.Event:
        if not self._timed:
            return super().launch_watched(calls, after)
        self.launch(calls, after)
        return self.put_in[-1].events[-1]


class TracedPlayer(ClockedPlayer):
    """Player that records the times of its runs."""

    _launches: TracedQueue

    def __init__(
        self, info: DeviceInfo, plan: Plan, trace: Trace, program: cl.Program | None = None
    ) -> None:
        self._trace = trace
        self._signals_host = any(buffer.kind == "host_protocol" for buffer in plan.buffers)
        super().__init__(info, plan, program)

    def _make_queue(self) -> LaunchQueue:
        return TracedQueue(self._context, self.info, self.plan)

    def _play(self, arrays: Sequence[np.ndarray | None], into: Sequence[Any] | None) -> Outputs:
        with self._trace.span("upload"):
            self._ports.put(arrays, self._start)
        with self._trace.span("wait"):
            while not self._ports.wait():
                self._start()
            if not self._signals_host:
                self._queue.finish()  # otherwise done when outputs are read
        run = self._launches.put_in[-1]
        run.waited = time.perf_counter()
        with self._trace.span("download"):
            results = self._ports.take(into)
        if self.plan.clocks is not None:
            run.notes = self.read_clocks()
        return results

    def _start(self) -> None:
        with self._trace.span("enqueue"):
            super()._start()

    def traced_runs(self) -> list[TracedRun]:
        """Wait for all runs so far and return them."""
        self._guard("waiting for the last run", self._queue.finish)
        put_in = self._launches.put_in
        zero = next((event.span[0] for one in put_in for event in one.events), 0)
        return [one.as_run(zero) for one in put_in]

    def exchange_variables(self, other: object, give: bool) -> None:
        """Copy the model's variables from another player of it, or to it."""
        assert isinstance(other, Player)
        source, target = (self, other) if give else (other, self)
        pairs = zip(source._variables(), target._variables(), strict=True)
        for (buffer, variable), (_, destination) in pairs:
            array = np.empty(buffer.bytes, np.uint8)
            source._queue.read(variable, array)
            target._queue.write(destination, array)

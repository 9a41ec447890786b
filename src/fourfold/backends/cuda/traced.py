"""Player whose runs are traced: the host's work, and launches by the device's clock."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from fourfold.backends.cuda import binding as cu
from fourfold.backends.cuda.player import Player
from fourfold.backends.cuda.program import BuiltModule
from fourfold.backends.cuda.replay import LaunchBinder, Replay, Route
from fourfold.backends.protocol import Into, Outputs
from fourfold.backends.traced_run import TracedRun
from fourfold.device import DeviceInfo
from fourfold.plan import Plan
from fourfold.support.trace import Trace

ANCHORS = 5  # events that are waited for immediately, to compare the clocks


class ClockedPlayer(Player):
    """Player for plans with clocks."""

    def read_clocks(self) -> np.ndarray:
        """Return what each work-group recorded in the last run."""
        clocks = self.plan.clocks
        assert clocks is not None
        notes = np.empty(clocks.shape, np.int64)
        with self._convert_errors("reading clocks"):
            self._stream.read(self._buffers.addresses[clocks.buffer] + clocks.offset, notes)
            self._stream.finish()
        return notes


class PutIn:
    """Launches of one run: when they were submitted, and the events around each."""

    def __init__(self) -> None:
        self.began, self.ended = time.perf_counter(), 0.0
        self.events: list[tuple[cu.Event, cu.Event]] = []
        self.waited: float | None = None
        self.notes: np.ndarray | None = None

    def as_run(self, zero: cu.Event) -> TracedRun:
        spans = tuple((a.seconds_from(zero), b.seconds_from(zero)) for a, b in self.events)
        return TracedRun((self.began, self.ended), None, self.waited, spans, self.notes)


class LaunchLog:
    """All runs of a player. Event times are relative to the first event."""

    def __init__(self) -> None:
        self.put_in: list[PutIn] = []
        self._zero: cu.Event | None = None
        self._anchors: list[TracedRun] = []

    def compare_clocks(self, stream: cu.Stream) -> None:
        """Record events and wait for each: it was reached between two times of the host."""
        stream.finish()
        for _ in range(ANCHORS):
            began, event = time.perf_counter(), cu.Event(timed=True)
            event.record(stream)
            event.wait()
            ended = time.perf_counter()
            self._zero = self._zero or event
            self._anchors.append(TracedRun((began, ended), event.seconds_from(self._zero), ended))
            if event is not self._zero:
                event.release()

    def put(self, number: int, launch: cu.Launch, stream: cu.Stream) -> None:
        """Submit a launch between two events; the first launch of a plan begins a run."""
        if number == 0:
            self.put_in.append(PutIn())
        first, last = cu.Event(timed=True), cu.Event(timed=True)
        first.record(stream)
        launch.put(stream)
        last.record(stream)
        self.put_in[-1].events.append((first, last))
        self.put_in[-1].ended = time.perf_counter()

    def runs(self) -> list[TracedRun]:
        assert self._zero is not None
        return [*self._anchors, *(one.as_run(self._zero) for one in self.put_in)]

    def release(self) -> None:
        for event in (event for one in self.put_in for pair in one.events for event in pair):
            event.release()
        if self._zero is not None:
            self._zero.release()


class TimedLaunch:
    """A numbered launch of a plan that is recorded when it is submitted."""

    def __init__(self, number: int, launch: cu.Launch, log: LaunchLog) -> None:
        self._number, self._launch, self._log = number, launch, log

    def put(self, stream: cu.Stream) -> None:
        self._log.put(self._number, self._launch, stream)


class TracedBinder(LaunchBinder):
    """Creates timed launches. A graph of them would be a single launch to the host."""

    captures = False
    log: LaunchLog

    def bind(self, route: Route) -> list[Any]:
        launches = enumerate(super().bind(route))
        return [TimedLaunch(number, launch, self.log) for number, launch in launches]


class TracedPlayer(ClockedPlayer):
    """Player that submits launch by launch instead of with a graph, and records when."""

    def __init__(
        self, info: DeviceInfo, plan: Plan, trace: Trace, program: BuiltModule | None = None
    ) -> None:
        self._trace, self._log = trace, LaunchLog()
        super().__init__(info, plan, program)
        with self._convert_errors("comparing clocks"):
            self._log.compare_clocks(self._stream)

    def _make_binder(self, module: cu.Module) -> LaunchBinder:
        self._held.callback(self._log.release)
        binder = TracedBinder(self.info, self.plan, module, self._buffers.addresses)
        binder.log = self._log
        return binder

    def run(self, arrays: Sequence[np.ndarray], into: Into | None = None) -> Outputs:
        """Return the outputs for these inputs, in port order; see the protocol."""
        with self._run_errors:
            with self._context:
                self._put(arrays, self._own)
            self._wait(self._own)
            with self._trace.span("download"):
                results = self._ports.take(into)
        if self.plan.clocks is not None:
            self._log.put_in[-1].notes = self.read_clocks()
        return results

    def _upload(self, arrays: Sequence[Any], replay: Replay) -> None:
        with self._trace.span("upload"):
            super()._upload(arrays, replay)

    def _launch(self, replay: Replay) -> None:
        with self._trace.span("enqueue"):
            super()._launch(replay)

    def _wait(self, replay: Replay) -> None:
        with self._trace.span("wait"):
            super()._wait(replay)
        self._log.put_in[-1].waited = time.perf_counter()

    def traced_runs(self) -> list[TracedRun]:
        """Wait for all launches so far and return them."""
        with self._convert_errors("waiting for the last run"):
            self._stream.finish()
            return self._log.runs()

    def exchange_variables(self, other: object, give: bool) -> None:
        """Copy the model's variables from another player of it, or to it."""
        assert isinstance(other, Player)
        pair = (other._buffers, self._buffers)
        target, source = (one.variables() for one in (pair if give else pair[::-1]))
        with self._convert_errors("copying the state"):
            for number, address in target.items():
                self._stream.copy(address, source[number], self.plan.buffers[number].bytes)
            self._stream.finish()

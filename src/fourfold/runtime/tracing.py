"""Tracing: runs of a model that is ready become spans of a trace, with what its device did."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, cast

import numpy as np

from fourfold import backends
from fourfold.backends.cpu import CPU
from fourfold.backends.protocol import Into, Outputs, Slot
from fourfold.backends.traced_run import TracedPlayer, TracedRun
from fourfold.device import DeviceInfo
from fourfold.errors import BuildError, DeviceError
from fourfold.plan import Plan
from fourfold.runtime.executor import Executor, Runner
from fourfold.runtime.instance import ModelInstance, not_direct
from fourfold.runtime.stage_times import ClockSample, clock_speed, read_notes
from fourfold.support.log import Log
from fourfold.support.trace import DEVICE, DeviceClock, Trace, TraceSpan

log = Log("runtime")

LAUNCHES, STAGES, IN_FLIGHT = "launches", "stages", "runs in flight"
FLIGHT = "run in flight"


@contextmanager
def trace_instance(instance: ModelInstance, trace: Trace) -> Iterator[None]:
    """Lets a model be played so that runs, and what the device does for them, are written down."""
    others = instance.other_plans
    clocked = None if instance.in_parts else others.with_clocks()
    device = others.request.device
    if device != CPU:
        device = backends.with_run_facts(device, others.store)
    before, direct = instance.executor, instance.direct
    tracer = RunTracer(before, trace, device, clocked)
    instance.use_executor(tracer.executor, not_direct)
    try:
        yield
    finally:
        instance.use_executor(before, direct)
        tracer.finish()


class SpannedRuns:
    """A player, or a runner of a part on the CPU, whose runs are spans. All else is its own."""

    def __init__(self, player: Any, trace: Trace, name: str, numbers: Iterator[int]) -> None:
        self._player, self._trace, self._name, self._numbers = player, trace, name, numbers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._player, name)

    def run(self, arrays: Sequence[np.ndarray], into: Into | None = None) -> Outputs:
        with self._trace.span(self._name, number=next(self._numbers)):
            return cast(Outputs, self._player.run(arrays, into))

    def run_bound(self, arrays: Sequence[Any], into: Sequence[Any] | None = None) -> Outputs:
        with self._trace.span(self._name, number=next(self._numbers)):
            return cast(Outputs, self._player.run_bound(arrays, into))

    def bound_run(self, arrays: Sequence[Any], into: Sequence[Any]) -> None:
        """Each run is a span, so none is played by a shorter way."""

    def open_slot(self, staged: bool = True) -> Slot | None:
        slot = self._player.open_slot(staged)
        return None if slot is None else SpannedSlot(slot, self._trace, self._numbers)


class SpannedSlot:
    """A slot of which each run in flight is a span, and so is what the host does for it."""

    def __init__(self, slot: Slot, trace: Trace, numbers: Iterator[int]) -> None:
        self._slot, self._trace, self._numbers = slot, trace, numbers
        self._began: float | None = None
        self._number = -1

    @property
    def inputs(self) -> Sequence[np.ndarray]:
        return self._slot.inputs

    @property
    def outputs(self) -> Sequence[np.ndarray]:
        return self._slot.outputs

    @property
    def done(self) -> bool:
        return self._slot.done

    def begin(self, arrays: Sequence[np.ndarray | None], spin: bool = False) -> None:
        self._number, self._began = next(self._numbers), time.perf_counter()
        with self._trace.span("begin", number=self._number):
            self._slot.begin(arrays, spin)

    def end(self, spin: bool = False) -> Sequence[np.ndarray]:
        if self._began is None:
            return self._slot.end(spin)
        began, self._began = self._began, None
        with self._trace.span("wait", number=self._number):
            outputs = self._slot.end(spin)
        took, number = time.perf_counter() - began, {"number": self._number}
        self._trace.add(TraceSpan(FLIGHT, IN_FLIGHT, began, took, details=number, in_flight=True))
        return outputs

    def close(self) -> None:
        self._slot.close()


class RunTracer:
    """Plays in place of a model's own player for as long as a trace is written."""

    def __init__(
        self,
        executor: Executor,
        trace: Trace,
        device: DeviceInfo,
        clocked: Plan | None,
    ) -> None:
        """`clocked` is the player's plan with clocks in its stages, if there can be one."""
        self._trace, self._device = trace, device
        self._traced: list[tuple[backends.Player, TracedPlayer]] = []
        self.executor = executor.with_runners(
            lambda target, runner: self._runner(target, runner, executor, clocked)
        )
        if executor.player is None:
            self.executor = cast(Executor, SpannedRuns(self.executor, trace, "run", count()))

    def _runner(
        self, target: str, runner: Runner, executor: Executor, clocked: Plan | None
    ) -> Runner:
        """Return a runner whose runs are spans: of the whole model, or of one part within it."""
        if runner in executor.players:
            runner = self._start(runner, clocked)
        name = "run" if executor.player is not None else f"part on {target}"
        return cast(Runner, SpannedRuns(runner, self._trace, name, count()))

    def _start(self, player: backends.Player, clocked: Plan | None) -> backends.Player:
        """A player that traces what this one plays; the same one where its API has none."""
        backend = backends.backend_of(self._device)
        for plan in (clocked, player.plan):
            if plan is None:
                continue
            try:
                made = backend.make_traced_player(self._device, plan, self._trace)
            except (BuildError, DeviceError) as error:
                log.warn_once(f"a trace is less than it could be: {error.what}: {error.why}")
                continue
            if made is not None:
                traced = cast(TracedPlayer, made)
                traced.exchange_variables(player, give=False)
                self._traced.append((player, traced))
                return made
        return player

    def finish(self) -> None:
        """Write down what the device did, and let the model's own player go on."""
        for player, traced in self._traced:
            self._trace.add(*device_spans(traced.plan, traced.traced_runs()))
            traced.exchange_variables(player, give=True)
            traced.close()
        self._traced = []


def device_spans(plan: Plan, runs: Sequence[TracedRun]) -> list[TraceSpan]:
    """Launches, and the stages of one launch where they noted their times, by the host's clock."""
    clock = _launch_clock(runs)
    spans = []
    for number, run in enumerate(one for one in runs if one.launches):
        put_in: float | None = run.put_in[0]  # one arrow for all of them
        for launch, (began, ended) in zip(plan.launches, run.launches, strict=True):
            details = {"node": launch.node, "run": number}
            start, seconds = began + clock.offset, ended - began
            span = TraceSpan(launch.entry, LAUNCHES, start, seconds, DEVICE, details, put_in=put_in)
            spans.append(span)
            put_in = None
    return spans + _stage_spans(plan, [run for run in runs if run.notes is not None], clock)


def _launch_clock(runs: Sequence[TracedRun]) -> DeviceClock:
    """By what the host knows of each run: it was not played before it was put in, nor after it was
    waited for.
    """
    clock = DeviceClock()
    for run in runs:
        before, after = run.put_in
        if run.queued is not None:
            clock.anchor(run.queued, before, after)
        elif run.launches:
            clock.anchor(run.launches[0][0], before, float("inf"))
        if run.launches and run.ended is not None:
            clock.anchor(run.launches[-1][1], float("-inf"), run.ended)
    return clock


def _stage_spans(plan: Plan, runs: Sequence[TracedRun], clock: DeviceClock) -> list[TraceSpan]:
    if not runs or plan.clocks is None:
        return []
    windows = [_window(run, clock) for run in runs]
    samples = [
        ClockSample(began, cast(np.ndarray, run.notes))
        for run, (began, _) in zip(runs, windows, strict=True)
    ]
    speed = plan.clocks.clock.per_second or _clock_speed(samples, windows[0])
    read = [read_notes(plan.clocks, one.notes, speed) for one in samples]
    triples = zip(read, runs, windows, strict=True)
    times = [(one, run, window) for one, run, window in triples if one is not None]
    stage_clock, spans, zero = DeviceClock(), list[TraceSpan](), samples[0].notes[0, 0]
    for one, _, (began, ended) in times:
        stage_clock.anchor(float(one.start - zero) / speed, began, ended - one.total)
    for one, run, _ in times:
        start = float(one.start - zero) / speed + stage_clock.offset
        if not run.launches:  # the driver did not tell, but its stages do
            (launch,) = plan.launches
            put_in = run.put_in[0]
            spans.append(TraceSpan(launch.entry, LAUNCHES, start, one.total, DEVICE, put_in=put_in))
        rows = zip(one.stages, one.began, one.seconds, one.waiting, strict=True)
        for title, began, seconds, waiting in rows:
            details = {"node": title.node, "waiting_us": round(float(waiting) * 1e6, 3)}
            at, length = start + float(began), float(seconds)
            spans.append(TraceSpan(title.kernel, STAGES, at, length, DEVICE, details))
    return spans


def _clock_speed(samples: Sequence[ClockSample], window: tuple[float, float]) -> float:
    """Of a clock which nobody knows: over all runs, or over the only one."""
    speed = clock_speed(samples)
    if speed:
        return speed
    began, ended = samples[0].notes[:, 0], samples[0].notes[:, 2]
    return float(ended.max() - began[began != 0].min()) / (window[1] - window[0])


def _window(run: TracedRun, clock: DeviceClock) -> tuple[float, float]:
    """Between which of the host's times a run's only launch was played."""
    if run.launches:
        (began, _), (_, ended) = run.launches[0], run.launches[-1]
        return began + clock.offset, ended + clock.offset
    return run.put_in[0], cast(float, run.ended)


def opening_spans(spans: Sequence[tuple[str, float, float]]) -> list[TraceSpan]:
    """The stages of opening a model, within a span for all of it."""
    if not spans:
        return []
    first, last = min(one[1] for one in spans), max(one[2] for one in spans)
    whole = [("opening", first, last)]
    track = threading.main_thread().name
    return [TraceSpan(name, track, began, ended - began) for name, began, ended in [*whole, *spans]]

"""Profile: the time of each kernel of a model, as a launch or as a stage of one launch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from fourfold import backends
from fourfold.backends.protocol import ClockedPlayer
from fourfold.errors import BuildError, DeviceError
from fourfold.plan import CompiledModel, Launch, Plan
from fourfold.runtime.executor import Executor
from fourfold.runtime.loading import compile_request, tuned_choices
from fourfold.runtime.request import Request
from fourfold.runtime.stage_times import ClockSample, StageTimes, read_runs
from fourfold.support.display import count_text, html_table, shown, time_text
from fourfold.support.log import Log
from fourfold.support.timings import Timings

if TYPE_CHECKING:
    from fourfold.store.store import Store

log = Log("runtime")
MAX_KERNELS_SHOWN = 5  # in the text form; the HTML form shows all
MIN_SECONDS = 0.05  # to calibrate a device clock of unknown speed against the host's
ENOUGH_RUNS, MAX_SECONDS = 50, 0.5  # stop after either


class OtherPlans(NamedTuple):
    """The compiled model of a session, and what it was compiled from."""

    model: CompiledModel
    request: Request
    store: Store | None
    origin: str

    @property
    def can_be_made(self) -> bool:
        """True if the model is one launch and its source is available for compiling again."""
        model = self.model
        return model.is_whole and model.stages > len(model.launches) and self.origin != "file"

    def with_clocks(self) -> Plan | None:
        """Return the plan with clocks in its stages; None if that is not possible."""
        if not self.can_be_made or self.request.device.remote:
            return None
        plan = self._plan(clocked=True)
        return None if plan.clocks is None else plan

    def _plan(self, **changed: Any) -> Plan:
        options = replace(self.request.compile_options, **changed)
        request = self.request._replace(compile_options=options, timings=Timings())
        return compile_request(request, tuned_choices(request.device, self.store)).plan

    def clocked_player(self) -> backends.Player | None:
        """Return a player of the plan with clocks; None if the device cannot compile it."""
        plan = self.with_clocks()
        if plan is None:
            return None
        device = backends.with_run_facts(self.request.device, self.store)
        try:
            return backends.backend_of(device).make_clocked_player(device, plan)
        except (BuildError, DeviceError) as error:
            log.warn_once(f"cannot time the stages of one launch: {error.what}: {error.why}")
            return None

    def list_player(self) -> backends.Player:
        """Return a player with one launch per kernel."""
        plan = self._plan(launches="list")
        return backends.make_player(self.request.device, plan, store=self.store)


@dataclass(frozen=True)
class KernelTime:
    """The time of one kernel: its name, the node it came from, and the seconds.

    A stage of one launch lasts from the end of all earlier stages to its own end, and `began` that
    many seconds after the launch. `waiting` is the mean time that work-groups waited for others in
    it; None for launches.
    """

    kernel: str
    node: str
    seconds: float
    began: float | None = None
    waiting: float | None = None


class Profile(list[KernelTime]):
    """The times of all kernels, in the order in which they run.

    `form` is what was timed: the 'launches' of the plan; the 'stages' of its one launch, measured
    with a `clock` that kernels read; or a 'list' of launches compiled for profiling, for a plan of
    one launch on a device without such a clock. `clock_cost` is the measured overhead of the clocks
    as a fraction of the launch; `launch_seconds` is the launch without them.
    """

    def __init__(
        self,
        times: Sequence[KernelTime],
        form: str = "launches",
        clock: str = "",
        clock_cost: float | None = None,
        launch_seconds: float | None = None,
    ) -> None:
        super().__init__(times)
        self.form, self.clock = form, clock
        self.clock_cost, self.launch_seconds = clock_cost, launch_seconds

    @property
    def seconds(self) -> float:
        """Total time of all kernels."""
        return sum(one.seconds for one in self)

    @property
    def longest(self) -> list[KernelTime]:
        """All kernels, slowest first."""
        return sorted(self, key=lambda one: one.seconds, reverse=True)

    @property
    def summary(self) -> str:
        noun, plural = ("stage", "stages") if self.form == "stages" else ("launch", "launches")
        return f"{count_text(len(self), noun, plural)}, {time_text(self.seconds)} in all"

    def share(self, one: KernelTime) -> str:
        """Return one kernel's percentage of the total time."""
        return f"{one.seconds / (self.seconds or 1.0):.1%}"

    @shown
    def __repr__(self) -> str:
        longest = (
            f"  {time_text(one.seconds):>10} {self.share(one):>6}  {one.kernel}"
            for one in self.longest[:MAX_KERNELS_SHOWN]
        )
        more = (
            (f"  and {len(self) - MAX_KERNELS_SHOWN} more",)
            if len(self) > MAX_KERNELS_SHOWN
            else ()
        )
        return "\n".join((f"<Profile: {self.summary}>", *longest, *more))

    def _repr_html_(self) -> str:
        rows = [
            (time_text(one.seconds), self.share(one), one.kernel, one.node) for one in self.longest
        ]
        return html_table(self.summary, (">time", ">share", "kernel", "node"), rows)


def profile_model(
    executor: Executor, others: OtherPlans, arrays: Sequence[Any], runs: int
) -> Profile:
    """Return the times of all kernels of a model: its launches, the stages of its one launch by a
    clock that kernels read, or, without such a clock, the launches of a list compiled for it.
    """
    player = executor.player
    if player is None or not others.can_be_made:
        seconds = executor.profile(arrays, runs)
        return Profile(_launch_times(executor.model.launches, seconds))
    clocked = others.clocked_player()
    if clocked is not None:
        with closing(clocked):
            stages = profile_stages(player, clocked, arrays, runs)
            if stages is not None:
                return stages
    with closing(others.list_player()) as listed:
        return Profile(profile_launches(listed, arrays, runs), "list")


def profile_launches(player: backends.Player, arrays: Sequence[Any], runs: int) -> list[KernelTime]:
    """Return the shortest time of every launch, by the device's own clock."""
    return _launch_times(player.plan.launches, player.profile(arrays, runs))


def _launch_times(launches: Sequence[Launch], times: Sequence[float]) -> list[KernelTime]:
    pairs = zip(launches, times, strict=True)
    return [KernelTime(launch.entry, launch.node, seconds) for launch, seconds in pairs]


def profile_stages(
    plain: backends.Player, clocked: backends.Player, arrays: Sequence[Any], runs: int
) -> Profile | None:
    """Return the stages of the fastest run of a plan with clocks, interleaved with runs of the same
    plan without. None if the clock did not advance.
    """
    clocks = clocked.plan.clocks
    assert clocks is not None
    clocked.profile(arrays, 1)  # some drivers compile a kernel on its first run
    without, times = [], []
    samples: list[ClockSample] = []
    began = time.perf_counter()
    while not _suffices(len(samples), runs, time.perf_counter() - began):
        without.append(sum(plain.profile(arrays, 1)))
        host = time.perf_counter()
        times.append(sum(clocked.profile(arrays, 1)))
        samples.append(ClockSample(host, cast(ClockedPlayer, clocked).read_clocks()))
    stage_times = read_runs(clocks, samples)
    if not stage_times:
        return None
    cost = min(times) / min(without) - 1
    best = min(stage_times, key=lambda one: one.total)
    return Profile(_kernel_times(best), "stages", clocks.clock.name, cost, min(without))


def _suffices(pairs: int, runs: int, seconds: float) -> bool:
    """Return whether there are enough pairs of runs: at least `runs`, and more while they are fast,
    so that the overhead of the clocks stands out from noise.
    """
    if pairs < max(runs, 2) or seconds < MIN_SECONDS:
        return False
    return pairs >= ENOUGH_RUNS or seconds > MAX_SECONDS


def _kernel_times(run: StageTimes) -> list[KernelTime]:
    rows = zip(run.stages, run.began, run.seconds, run.waiting, strict=True)
    return [
        KernelTime(title.kernel, title.node, float(seconds), float(began), float(waiting))
        for title, began, seconds, waiting in rows
    ]

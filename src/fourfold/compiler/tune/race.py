"""Races candidates on the device, and rejects those with wrong results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from fourfold.backends import LaunchOutput, OutputDifference, backend_of
from fourfold.backends.cleanup import cleanup_on_error
from fourfold.codegen.context import KernelOptions
from fourfold.compiler.lower.trials import Extent, Trial, plan_trials
from fourfold.compiler.tune.search import Search
from fourfold.device import DeviceInfo
from fourfold.graph import Graph

TOLERANCE = {"fp32": 1e-4, "mixed": 2e-2, "fp16": 4e-2}
FIRST_RUNS = 2
SEED = 1


@dataclass(frozen=True)
class Result:
    """The best choice, its time and the default's, and the times of all candidates."""

    choice: str
    seconds: float
    default_seconds: float
    tried: int
    times: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        times = f"{self.seconds * 1e6:.2f} µs, the default {self.default_seconds * 1e6:.2f} µs"
        return f"{self.choice} takes {times}, of {self.tried} that were timed"


def _random_arena(size: int, values: tuple[Extent, ...]) -> np.ndarray:
    """Return an arena in which every value holds random numbers of its own type."""
    random, arena = np.random.default_rng(SEED), np.zeros(max(size, 64), np.uint8)
    for value in values:
        count = value.bytes // value.dtype.size
        low, high = (-1.0, 1.0) if value.dtype.is_float else (0.0, 2.0)
        numbers = random.uniform(low, high, count).astype(value.dtype.numpy)
        arena[value.offset : value.offset + value.bytes] = numbers.view(np.uint8)
    return arena


def _output_of(trial: Trial) -> LaunchOutput:
    at = trial.output
    return LaunchOutput(trial.launches, at.offset, at.dtype, at.bytes // at.dtype.size)


class Race:
    """The candidates of several searches, built together on one device."""

    def __init__(
        self, graph: Graph, device: DeviceInfo, options: KernelOptions, searches: list[Search]
    ) -> None:
        candidates = {search.key: list(search.candidates) for search in searches}
        trials = plan_trials(graph, device, options, candidates)
        self._trials, self._tolerance = trials.of, TOLERANCE[trials.plan.precision]
        # A gain within the noise of the clock is no reason to leave the default. On a GPU that is
        # timed launch by launch, the times include launch overhead.
        self._repeats = trials.repeats
        self._gain = 0.95 if device.is_cpu or trials.repeats > 1 else 0.85
        self._timer = backend_of(device).make_timer(device, trials.plan)
        with cleanup_on_error(self._timer.close):
            self._timer.fill(_random_arena(trials.plan.bytes("arena"), trials.values))

    def run(self, search: Search, runs: int) -> Result | None:
        """Return the fastest correct candidate; half of them drop out each round."""
        trials = self._trials[search.key]
        differences = self._timer.differences([_output_of(trial) for trial in trials])
        pairs = zip(trials, differences, strict=True)
        correct = [one for one, apart in pairs if one is trials[0] or self._agrees(apart)]
        times = {trial.way: float("inf") for trial in correct}
        remaining, runs_each = correct, FIRST_RUNS
        while remaining:
            launches = [trial.launches for trial in remaining]
            seconds = self._timer.seconds_of_all(launches, runs_each)
            for trial, took in zip(remaining, seconds, strict=True):
                times[trial.way] = min(times[trial.way], took / self._repeats)
            if runs_each >= runs:
                break
            runs_each *= 2
            ranked = sorted(remaining, key=lambda trial: times[trial.way])
            remaining = ranked[: max(2, len(ranked) // 2)]
            if trials[0] not in remaining:
                remaining.append(trials[0])
        best = min(times, key=lambda choice: times[choice])
        default = times[trials[0].way]
        if times[best] > self._gain * default:
            best = trials[0].way
        return Result(best, times[best], default, len(correct), times)

    def _agrees(self, apart: OutputDifference | None) -> bool:
        """Return whether a candidate ran and its output matches the default's."""
        if apart is None or apart.in_nans:
            return False
        return apart.largest <= self._tolerance * max(1.0, apart.scale)

    def close(self) -> None:
        self._timer.close()

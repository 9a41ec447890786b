"""Runs candidates against each other on the device, and trusts none that computes something
else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError
from fourfold.graph import Graph
from fourfold.kernel.site import Options
from fourfold.lower.trials import Trial, plan_trials
from fourfold.players.stopwatch import Stopwatch
from fourfold.tune.search import Search

TOLERANCE = {"fp32": 1e-4, "mixed": 2e-2, "fp16": 4e-2}
FIRST_LOOK = 2
SEED = 1


@dataclass(frozen=True)
class Result:
    """The best way found, its time, the default's time, and how many were timed."""

    way: str
    seconds: float
    default_seconds: float
    tried: int


class Race:
    """The candidates of several searches, built together on one device."""

    def __init__(
        self, graph: Graph, device: DeviceInfo, options: Options, searches: list[Search]
    ) -> None:
        wanted = {search.key: list(search.ways) for search in searches}
        plan, self._trials = plan_trials(graph, device, options, wanted)
        self._storage, self._tolerance = options.storage.numpy, TOLERANCE[options.precision]
        self._watch = Stopwatch(device, plan)
        random = np.random.default_rng(SEED)
        size = max(64, plan.bytes("arena")) // self._storage.itemsize
        self._watch.fill(random.uniform(-1, 1, size).astype(self._storage))

    def run(self, search: Search, runs: int) -> Result | None:
        """The fastest of the candidates that agree with the default; half of them drop out each
        round.
        """
        trials = self._trials[search.key]
        expected = self._output(trials[0])
        honest = [trial for trial in trials if trial is trials[0] or self._agrees(trial, expected)]
        times = {trial.way: float("inf") for trial in honest}
        alive, looks = honest, FIRST_LOOK
        while alive:
            for trial in alive:
                seconds = self._watch.seconds(trial.launches, looks)
                times[trial.way] = min(times[trial.way], seconds)
            if looks >= runs:
                break
            looks *= 2
            ranked = sorted(alive, key=lambda trial: times[trial.way])
            alive = ranked[: max(2, len(ranked) // 2)]
            if trials[0] not in alive:
                alive.append(trials[0])
        best = min(times, key=lambda way: times[way])
        default = times[trials[0].way]
        # A gain within the noise of a clock is no reason to leave the default.
        if times[best] > 0.98 * default:
            best = trials[0].way
        return Result(best, times[best], default, len(honest))

    def _output(self, trial: Trial) -> np.ndarray:
        offset, size = trial.output
        self._watch.blank(offset, size)
        self._watch.seconds(trial.launches, 1)
        itemsize = self._storage.itemsize
        return self._watch.read(offset, self._storage, size // itemsize).astype(np.float32)

    def _agrees(self, trial: Trial, expected: np.ndarray) -> bool:
        """Whether a candidate writes what the default writes; one that fails to run does not."""
        try:
            output = self._output(trial)
        except DeviceError:
            return False
        same = np.isnan(output) == np.isnan(expected)
        scale = max(1.0, float(np.nanmax(np.abs(expected), initial=0.0)))
        near = np.abs(output - expected) <= self._tolerance * scale
        return bool(same.all() and (near | np.isnan(expected)).all())

    def close(self) -> None:
        self._watch.close()

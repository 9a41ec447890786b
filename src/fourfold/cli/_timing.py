"""Measuring: warm up until times settle, then take turns, and say what the times were."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median, quantiles

Call = Callable[[], object]
WINDOW = 5
SETTLED = 0.03


@dataclass(frozen=True)
class Times:
    """Seconds of one contestant's runs, summed up."""

    median: float
    min: float
    p90: float
    max: float
    runs: int

    @staticmethod
    def of(seconds: Sequence[float]) -> Times:
        tenth = quantiles(seconds, n=10, method="inclusive")[-1] if len(seconds) > 1 else seconds[0]
        return Times(median(seconds), min(seconds), tenth, max(seconds), len(seconds))

    @property
    def spread(self) -> float:
        """How far the slow runs lie above the median, as a share of it."""
        return self.p90 / self.median - 1

    def as_data(self) -> dict[str, float]:
        return asdict(self)


def timed(call: Call) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def warm_up(call: Call, limit: float, most: int = 200) -> list[float]:
    """Run until the median of the last runs is that of the runs before them, or a bound is met."""
    began, seconds = time.perf_counter(), [timed(call)]
    while len(seconds) < most and time.perf_counter() - began < limit:
        seconds.append(timed(call))
        if len(seconds) > 2 * WINDOW:  # the first run is never part of what is compared
            before, after = median(seconds[-2 * WINDOW : -WINDOW]), median(seconds[-WINDOW:])
            if abs(after - before) < SETTLED * before:
                break
    return seconds


def take_turns(
    calls: Mapping[str, Call], runs: int, limit: float, step: Callable[[], None] = lambda: None
) -> dict[str, Times]:
    """Time all contestants run by run, so that whatever disturbs one disturbs the others."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    began = time.perf_counter()
    for turn in range(runs):
        for name, call in calls.items():
            seconds[name].append(timed(call))
        step()
        if turn >= 2 and time.perf_counter() - began > limit:
            break
    return {name: Times.of(found) for name, found in seconds.items()}

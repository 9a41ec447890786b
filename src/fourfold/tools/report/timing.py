"""Timing of runs: warm up until times settle, then measure several contestants interleaved."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from statistics import median, quantiles

Call = Callable[[], object]
Step = Callable[[], None]
WINDOW_RUNS = 5  # two windows of this many runs are compared
SETTLED_RATIO = 0.03  # times have settled when the medians of two windows differ by less
ROUNDS = 4  # measuring periods of each contestant, if runs are in several streams


@dataclass(frozen=True)
class Times:
    """Statistics of the run times of one contestant, in seconds. `elapsed` is the wall-clock time
    of all runs, some of which may have overlapped.
    """

    median: float
    min: float
    p90: float
    p99: float
    max: float
    mean: float
    runs: int
    elapsed: float

    @staticmethod
    def of(seconds: Sequence[float], elapsed: float | None = None) -> Times:
        """Summarize run times; `elapsed` is their sum by default."""
        parts = quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else ()
        p90, p99 = (parts[89], parts[98]) if parts else (seconds[0], seconds[0])
        total = sum(seconds)
        return Times(
            median=median(seconds),
            min=min(seconds),
            p90=p90,
            p99=p99,
            max=max(seconds),
            mean=total / len(seconds),
            runs=len(seconds),
            elapsed=total if elapsed is None else elapsed,
        )

    @property
    def spread(self) -> float:
        """Distance of the 90th percentile above the median, as a fraction of the median."""
        return self.p90 / self.median - 1

    @property
    def rate(self) -> float:
        """Runs per second."""
        return self.runs / self.elapsed if self.elapsed else 0.0

    def as_data(self) -> dict[str, float]:
        """Return the statistics as plain data."""
        return {**asdict(self), "rate": self.rate}


def timed(call: Call) -> float:
    """Call a function and return the seconds that it took."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def warm_up(call: Call, limit: float, most: int = 200) -> list[float]:
    """Call a function until its times settle, for at most `limit` seconds and `most` runs."""
    began, seconds = time.perf_counter(), [timed(call)]
    while len(seconds) < most and time.perf_counter() - began < limit:
        seconds.append(timed(call))
        if len(seconds) > 2 * WINDOW_RUNS:  # leave the first run out of the comparison
            before = median(seconds[-2 * WINDOW_RUNS : -WINDOW_RUNS])
            after = median(seconds[-WINDOW_RUNS:])
            if abs(after - before) < SETTLED_RATIO * before:
                break
    return seconds


def take_turns(
    calls: Mapping[str, Call], runs: int, limit: float, step: Step = lambda: None
) -> dict[str, Times]:
    """Time contestants interleaved run by run, so that a disturbance affects all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    began = time.perf_counter()
    for turn in range(runs):
        for name, call in calls.items():
            seconds[name].append(timed(call))
        step()
        if turn >= 2 and time.perf_counter() - began > limit:
            break
    return {name: Times.of(times) for name, times in seconds.items()}


def take_turns_in_streams(
    streams: Mapping[str, Sequence[Call]], runs: int, limit: float, step: Step = lambda: None
) -> dict[str, Times]:
    """Time contestants that each run in several streams at once, one contestant after the other in
    several rounds.
    """
    seconds: dict[str, list[float]] = {name: [] for name in streams}
    elapsed = dict.fromkeys(streams, 0.0)
    period = limit / (ROUNDS * len(streams))
    for _ in range(ROUNDS):
        for name, calls in streams.items():
            times, took = _keep_busy(calls, period, -(-runs // ROUNDS))
            seconds[name] += times
            elapsed[name] += took
        step()
    return {name: Times.of(times, elapsed[name]) for name, times in seconds.items()}


def _keep_busy(calls: Sequence[Call], limit: float, runs: int) -> tuple[list[float], float]:
    """Repeat each call in a thread of its own; return the run times and the time elapsed."""
    began = time.perf_counter()
    tickets = iter(range(max(runs, len(calls))))

    def stream(call: Call) -> list[float]:
        times = [timed(call)]
        while time.perf_counter() - began < limit and next(tickets, None) is not None:
            times.append(timed(call))
        return times

    for _ in calls:
        next(tickets)  # for the first run of each stream
    with ThreadPoolExecutor(len(calls)) as pool:
        times = [one for some in pool.map(stream, calls) for one in some]
    return times, time.perf_counter() - began

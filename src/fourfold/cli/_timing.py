"""Measuring: warm up until times settle, then take turns, and say what the times were."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from statistics import median, quantiles

Call = Callable[[], object]
Step = Callable[[], None]
WINDOW = 5
SETTLED = 0.03
TURNS = 4  # of each contestant, where runs are in several streams


@dataclass(frozen=True)
class Times:
    """Seconds of one contestant's runs, summed up. `elapsed` is how long all took together, where
    some ran at the same time.
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
        parts = quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else ()
        p90, p99 = (parts[89], parts[98]) if parts else (seconds[0], seconds[0])
        in_all = sum(seconds)
        return Times(
            median=median(seconds),
            min=min(seconds),
            p90=p90,
            p99=p99,
            max=max(seconds),
            mean=in_all / len(seconds),
            runs=len(seconds),
            elapsed=in_all if elapsed is None else elapsed,
        )

    @property
    def spread(self) -> float:
        """How far the slow runs lie above the median, as a share of it."""
        return self.p90 / self.median - 1

    @property
    def rate(self) -> float:
        """Runs a second."""
        return self.runs / self.elapsed if self.elapsed else 0.0

    def as_data(self) -> dict[str, float]:
        return {**asdict(self), "rate": self.rate}


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
    calls: Mapping[str, Call], runs: int, limit: float, step: Step = lambda: None
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


def take_turns_in_streams(
    streams: Mapping[str, Sequence[Call]], runs: int, limit: float, step: Step = lambda: None
) -> dict[str, Times]:
    """Time contestants whose runs are in several streams at once: each has all streams busy for a
    part of the time, then the next one has.
    """
    seconds: dict[str, list[float]] = {name: [] for name in streams}
    elapsed = dict.fromkeys(streams, 0.0)
    turn = limit / (TURNS * len(streams))
    for _ in range(TURNS):
        for name, calls in streams.items():
            found, took = _keep_busy(calls, turn, -(-runs // TURNS))
            seconds[name] += found
            elapsed[name] += took
        step()
    return {name: Times.of(found, elapsed[name]) for name, found in seconds.items()}


def _keep_busy(calls: Sequence[Call], limit: float, runs: int) -> tuple[list[float], float]:
    """The seconds of runs, each stream's one after the other, and how long all of it took."""
    began = time.perf_counter()
    tickets = iter(range(max(runs, len(calls))))

    def stream(call: Call) -> list[float]:
        found = [timed(call)]
        while time.perf_counter() - began < limit and next(tickets, None) is not None:
            found.append(timed(call))
        return found

    for _ in calls:
        next(tickets)  # the first run of each
    with ThreadPoolExecutor(len(calls)) as pool:
        found = [one for some in pool.map(stream, calls) for one in some]
    return found, time.perf_counter() - began

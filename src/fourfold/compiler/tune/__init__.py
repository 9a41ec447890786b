"""Finds the fastest kernel for each node on a device by timing promising candidates.

A computation (`NodeContext.key`) is tuned once for all models: choices are stored by that key.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import NamedTuple

from fourfold.codegen.context import KernelOptions
from fourfold.compiler.tune.form import race_forms
from fourfold.compiler.tune.race import Race, Result
from fourfold.compiler.tune.search import Known, Search, searches
from fourfold.device import DeviceInfo
from fourfold.errors import InputError, nearest
from fourfold.graph import Graph
from fourfold.support.log import Log

log = Log("compiler.tune")


@dataclass(frozen=True)
class Level:
    """Search effort: candidates per key, timings per candidate, and a time limit in seconds."""

    candidates: int
    runs: int
    seconds: float


LEVELS = {
    "none": Level(0, 0, 0.0),
    "rapid": Level(8, 6, 45.0),
    "normal": Level(24, 12, 300.0),
    "exhaustive": Level(10_000, 20, 36_000.0),
}
ALL = LEVELS["exhaustive"].candidates
CHUNK = 48  # candidates that are built together


class Clock(NamedTuple):
    """Start of a search, its deadline, and its number of keys."""

    began: float
    stop: float
    total: int

    def left(self, done: int) -> float:
        """Return the estimated seconds left at the pace so far, at most up to the deadline."""
        now = time.monotonic()
        limit = max(self.stop - now, 0.0)
        return min(limit, (now - self.began) / done * (self.total - done)) if done else limit


class Listener:
    """Receives the progress of a search. This base class ignores it."""

    def found(self, key: str, result: Result) -> None:
        """Called when the best choice for a key is known and can be stored."""

    def progress(self, done: int, total: int, title: str, left: float) -> None:
        """Called before each key, with `done` of `total` keys and about `left` seconds left."""


def find_level(name: str, deadline: float | None = None) -> Level:
    """Return a level by name, with another time limit in seconds if one is given."""
    if name not in LEVELS:
        why = f"the tuning levels are {', '.join(LEVELS)}"
        raise InputError(f"unknown tuning level {name!r}", why, nearest(name, LEVELS))
    level = LEVELS[name]
    return level if deadline is None else replace(level, seconds=deadline)


def tune(
    graph: Graph,
    device: DeviceInfo,
    options: KernelOptions,
    level: Level,
    known: Mapping[str, str] | None = None,
    efforts: Mapping[str, int] | None = None,
    listener: Listener | None = None,
) -> dict[str, str]:
    """Return the best choice for every key of the graph that was timed.

    A known key is searched again if `efforts` says that fewer candidates than the level's were
    tried, starting after those. Each result goes to the listener at once, so that an interruption
    loses nothing.
    """
    listener, efforts = listener or Listener(), efforts or {}
    choices = dict(known or {})
    tried = {key: efforts.get(key, ALL) for key in choices}
    began = time.monotonic()
    stop = began + level.seconds
    todo = list(searches(graph, device, options, Known(choices, tried), level.candidates))
    clock = Clock(began, stop, len(todo))
    done = 0
    for chunk in _chunks(todo):
        if time.monotonic() >= stop:
            break
        with closing(Race(graph, device, options, chunk)) as race:
            for search in chunk:
                listener.progress(done, len(todo), search.title, clock.left(done))
                if time.monotonic() >= stop:
                    break
                result = race.run(search, level.runs)
                done += 1
                log.debug("%s: %s", search.title, result or "no candidate could be timed")
                if result is not None:
                    choices[search.key] = result.choice
                    listener.found(search.key, result)
    if level.runs and time.monotonic() < stop:
        listener.progress(done, len(todo), "one launch or several", clock.left(done))
        settled = [key for key, effort in tried.items() if effort >= level.candidates]
        formed = race_forms(graph, device, options, choices, settled, 4 * level.runs)
        log.debug("one launch or several: %s", formed and formed[1])
        if formed is not None:
            key, result = formed
            choices[key] = result.choice
            listener.found(key, result)
    listener.progress(done, len(todo), "", 0.0)
    seconds = time.monotonic() - began
    log.info("tuned %d of %d computations on %s in %.1f s", done, len(todo), device.name, seconds)
    return choices


def _chunks(todo: Iterable[Search]) -> list[list[Search]]:
    """Group searches whose kernels are built together: few enough to keep the deadline."""
    chunks: list[list[Search]] = []
    capacity = 0
    for search in todo:
        if capacity < len(search.candidates):
            chunks.append([])
            capacity = CHUNK
        chunks[-1].append(search)
        capacity -= len(search.candidates)
    return chunks

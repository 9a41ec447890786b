"""Finds the best kernel for each node on a device, by timing the promising ones.

What is computed (`NodeContext.key`) is tuned once, whatever model it is in: choices are kept by
that key.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import NamedTuple

from fourfold.device import DeviceInfo
from fourfold.errors import InputError, nearest
from fourfold.graph import Graph
from fourfold.kernel.context import KernelOptions
from fourfold.log import Log
from fourfold.tune.form import race_forms
from fourfold.tune.race import Race, Result
from fourfold.tune.search import Known, Search, searches

log = Log("tune")


@dataclass(frozen=True)
class Level:
    """How hard to look: candidates a key, how often each is timed, and a limit in seconds."""

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
    """When a search began, when it stops at the latest, and how many keys it has."""

    began: float
    stop: float
    total: int

    def left(self, done: int) -> float:
        """Seconds that are left: at the pace until now, but never beyond the limit."""
        now = time.monotonic()
        limit = max(self.stop - now, 0.0)
        return min(limit, (now - self.began) / done * (self.total - done)) if done else limit


class Listener:
    """Hears how a search goes. This one keeps quiet."""

    def found(self, key: str, result: Result) -> None:
        """The best choice for a key is known: the moment to keep it."""

    def progress(self, done: int, total: int, title: str, left: float) -> None:
        """So many of all keys are done, this one is next, and all may take so many seconds more."""


def level_named(name: str, deadline: float | None = None) -> Level:
    """A level by its name, with another limit in seconds where one is given."""
    if name not in LEVELS:
        why = f"levels are {', '.join(LEVELS)}"
        raise InputError(f"there is no tuning level {name!r}", why, nearest(name, LEVELS))
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
    """The best choice for every key of the graph that was timed.

    A known key is looked at again where `efforts` says that fewer candidates than the level's were
    tried for it, and then from there on. Each result goes to the listener as soon as it is found:
    nothing is lost by an interruption.
    """
    listener, efforts = listener or Listener(), efforts or {}
    found = dict(known or {})
    tried = {key: efforts.get(key, ALL) for key in found}
    began = time.monotonic()
    stop = began + level.seconds
    todo = list(searches(graph, device, options, Known(found, tried), level.candidates))
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
                log.debug("%s: %s", search.title, result or "nothing could be timed")
                if result is not None:
                    found[search.key] = result.choice
                    listener.found(search.key, result)
    if level.runs and time.monotonic() < stop:
        listener.progress(done, len(todo), "one launch or several", clock.left(done))
        settled = [key for key, effort in tried.items() if effort >= level.candidates]
        formed = race_forms(graph, device, options, found, settled, 4 * level.runs)
        log.debug("one launch or several: %s", formed and formed[1])
        if formed is not None:
            found[formed[0]] = formed[1].choice
            listener.found(*formed)
    listener.progress(done, len(todo), "", 0.0)
    seconds = time.monotonic() - began
    log.info("tuned %d of %d things on %s in %.1f s", done, len(todo), device.name, seconds)
    return found


def _chunks(todo: Iterable[Search]) -> list[list[Search]]:
    """Searches whose kernels are built in one go: few enough that a deadline is kept."""
    chunks: list[list[Search]] = []
    room = 0
    for search in todo:
        if room < len(search.candidates):
            chunks.append([])
            room = CHUNK
        chunks[-1].append(search)
        room -= len(search.candidates)
    return chunks

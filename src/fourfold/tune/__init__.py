"""Finds the best way to run each node on a device, by timing the promising ones.

What is computed (`Site.key`) is tuned once, whatever model it is in: choices are kept by that key.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fourfold.device import DeviceInfo
from fourfold.errors import InputError, nearest
from fourfold.graph import Graph
from fourfold.kernel.site import Options
from fourfold.tune.form import race_forms
from fourfold.tune.race import Race, Result
from fourfold.tune.search import Search, searches


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
CHUNK = 48  # candidates that are built together


class Listener:
    """Hears how a search goes. This one keeps quiet."""

    def found(self, key: str, result: Result) -> None:
        """The best way for a key is known: the moment to keep it."""

    def progress(self, done: int, total: int, title: str) -> None:
        """So many of all keys are done, and this one is next."""


def level_named(name: str) -> Level:
    if name not in LEVELS:
        why = f"levels are {', '.join(LEVELS)}"
        raise InputError(f"there is no tuning level {name!r}", why, nearest(name, LEVELS))
    return LEVELS[name]


def tune(
    graph: Graph,
    device: DeviceInfo,
    options: Options,
    level: str = "rapid",
    deadline: float | None = None,
    known: Mapping[str, str] | None = None,
    listener: Listener | None = None,
) -> dict[str, str]:
    """The best way for every key of the graph that was timed; `known` keys are left as they are.

    Each result goes to the listener as soon as it is found: nothing is lost by an interruption.
    """
    effort, listener = level_named(level), listener or Listener()
    known = known or {}
    found = dict(known)
    stop = time.monotonic() + (effort.seconds if deadline is None else deadline)
    todo = [
        search
        for search in searches(graph, device, options, known, effort.candidates)
        if search.key not in known and len(search.ways) > 1
    ]
    done = 0
    for chunk in _chunks(todo):
        if time.monotonic() >= stop:
            break
        race = Race(graph, device, options, chunk)
        for search in chunk:
            listener.progress(done, len(todo), search.title)
            if time.monotonic() >= stop:
                break
            result = race.run(search, effort.runs)
            done += 1
            if result is not None:
                found[search.key] = result.way
                listener.found(search.key, result)
        race.close()
    if effort.runs and time.monotonic() < stop:
        listener.progress(done, len(todo), "one launch or several")
        formed = race_forms(graph, device, options, found, 4 * effort.runs)
        if formed is not None:
            found[formed[0]] = formed[1].way
            listener.found(*formed)
    listener.progress(done, len(todo), "")
    return found


def _chunks(todo: Iterable[Search]) -> list[list[Search]]:
    """Searches whose kernels are built in one go: few enough that a deadline is kept."""
    chunks: list[list[Search]] = []
    room = 0
    for search in todo:
        if room < len(search.ways):
            chunks.append([])
            room = CHUNK
        chunks[-1].append(search)
        room -= len(search.ways)
    return chunks

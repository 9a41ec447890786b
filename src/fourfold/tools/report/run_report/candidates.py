"""Kernel variants of a node: choices of tuning, and candidates timed for a report."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field

from fourfold.compiler.compile import LoweringInput
from fourfold.compiler.tune import LEVELS
from fourfold.compiler.tune.race import Race
from fourfold.compiler.tune.search import Known, searches
from fourfold.runtime.instance import ModelInstance
from fourfold.store.choices import Choice
from fourfold.store.keys import device_key
from fourfold.store.shipped import known_choices
from fourfold.tools.report.run_report.record import NodeTuning, TimedCandidate

LEVEL = LEVELS["rapid"]
Candidates = Mapping[str, tuple[TimedCandidate, ...]]


@dataclass(frozen=True)
class KnownWays:
    """Tuned choices by key, from the cache and from the package."""

    kept: Mapping[str, Choice] = field(default_factory=dict)
    shipped: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(instance: ModelInstance) -> KnownWays:
        device, store = instance.request.device, instance.store
        rows = [] if store is None else store.choice_rows(device_key(device))
        return KnownWays({row.key: row for row in rows}, known_choices(device))

    def tuning(self, key: str, way: str, timed: Candidates) -> NodeTuning:
        """Return the variant of a node, with the candidates that were timed."""
        candidates = timed.get(key, ())
        row = self.kept.get(key)
        if row is None:
            return NodeTuning(way, key in self.shipped, candidates=candidates)
        return NodeTuning(way, True, row.effort or None, row.seconds, candidates)


def time_candidates(
    lowering: LoweringInput, weights: Mapping[str, float], seconds: float = LEVEL.seconds
) -> Candidates:
    """Time some variants for each key, largest weight first, within a time limit."""
    nothing = Known({}, {})
    graph, device, options = lowering
    ordered = list(searches(graph, device, options, nothing, LEVEL.candidates))
    ordered.sort(key=lambda search: -weights.get(search.key, 0.0))
    stop, timed = time.monotonic() + seconds, dict[str, tuple[TimedCandidate, ...]]()
    for search in ordered:
        if time.monotonic() >= stop:
            break
        with closing(Race(graph, device, options, [search])) as race:
            result = race.run(search, LEVEL.runs)
        if result is not None:
            pairs = sorted(result.times.items(), key=lambda pair: pair[1])
            timed[search.key] = tuple(TimedCandidate(way, took) for way, took in pairs)
    return timed

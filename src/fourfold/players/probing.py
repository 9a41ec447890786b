"""What trials have told of devices: asked once a process, and kept in a store between processes."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from itertools import chain
from threading import RLock
from typing import TYPE_CHECKING

from fourfold.device import DeviceInfo, Fact, facts_for_plans, facts_for_players
from fourfold.forks import ForkSafeLock
from fourfold.log import Log
from fourfold.players.registry import backend_of

if TYPE_CHECKING:
    from fourfold.store.store import Store

log = Log("players")

# A trial that hung or died is made again by this many starts. Then only who makes a plan for it
# asks: a driver that dies of it each time must not make every start slow.
MOST_TRIES = 3


class _Known:
    """What this process knows of a device."""

    def __init__(self) -> None:
        self.facts: dict[str, Fact] = {}
        self.unanswered: set[str] = set()  # asked by this process, in vain
        self.given_up: set[str] = set()  # asked in vain by this process and those before it
        self.kept: dict[str, set[str]] = {}  # what each store has, by its place


_known: defaultdict[DeviceInfo, _Known] = defaultdict(_Known)
_lock = ForkSafeLock(RLock)  # one trial at a time: two on one device could wait for each other


def probe(device: DeviceInfo, quantised: bool = False) -> DeviceInfo:
    """The same device with the facts that plans are made from: those that are known, and trials of
    the others. Who multiplies bytes is asked for `quantised` graphs alone.
    """
    with _lock:
        return _settled(device, quantised, tries=True)


def begin_trials(device: DeviceInfo) -> None:
    """Let trials that take long begin, whose answers are needed when a model has been read."""
    with _lock:
        known = _known[device]
        settled = {*device.probed, *known.facts, *known.unanswered, *known.given_up}
        for_plans = chain.from_iterable(facts_for_plans(device, quantised=False))
        missing = {*for_plans, *facts_for_players(device)} - settled
        if missing:
            backend_of(device).begin_probe(device, missing)


def recall_facts(device: DeviceInfo, store: Store) -> DeviceInfo:
    """The same device with those facts for plans that are known without a trial, here or in a
    store. A trial that did not answer the last time is made again.
    """
    with _lock:
        again = _take_over(device, store)
        known = _settled(device, quantised=True, tries=False)
        wanted = chain.from_iterable(facts_for_plans(known, quantised=True))
        open_facts = again.intersection(wanted)
        if open_facts:
            _answers(device, sorted(open_facts), tries=True)
            keep_facts(device, store)
            known = _settled(device, quantised=True, tries=False)
        return known


def ask_facts(device: DeviceInfo, names: Collection[str], store: Store | None = None) -> DeviceInfo:
    """The same device with these facts: known, kept in a store, or tried now and kept there."""
    with _lock:
        wanted = [name for name in names if not device.knows(name)]
        if store is not None and not _known[device].facts.keys() >= set(wanted):
            _take_over(device, store)
        found = _answers(device, wanted, tries=True)
        if store is not None:
            keep_facts(device, store)
        return device.with_facts(found)


def ready_to_play(device: DeviceInfo, store: Store | None = None) -> DeviceInfo:
    """The same device with all that a player must know of it, found out now if need be."""
    with _lock:
        names = facts_for_players(device)
        if store is not None and not _known[device].facts.keys() >= {*names}:
            _take_over(device, store)
        hopeless = _known[device].given_up
        return ask_facts(device, [name for name in names if name not in hopeless], store)


def note_facts(device: DeviceInfo, facts: Mapping[str, Fact]) -> None:
    """Take over what was found out of this very device elsewhere, such as in a prepared file."""
    with _lock:
        known = _known[device]
        known.facts = {**facts, **known.facts}


def with_known_facts(device: DeviceInfo) -> DeviceInfo:
    """The same device with all that this process knows of it."""
    return device.with_facts(_answers(device, [*_known[device].facts], tries=False))


def keep_facts(device: DeviceInfo, store: Store) -> None:
    """Put what this process found out, and what was asked in vain, where the next one looks."""
    with _lock:
        known = _known[device]
        kept = known.kept.setdefault(store.place, set())
        new = {name: fact for name, fact in known.facts.items() if name not in kept}
        unanswered = known.unanswered - kept
        if new or unanswered:
            store.put_facts(device, new, unanswered)
            kept.update(new, unanswered)


def _take_over(device: DeviceInfo, store: Store) -> set[str]:
    """Add what a store has of a device; gives the facts that were asked in vain and may be asked
    again.
    """
    known = _known[device]
    if store.place in known.kept:
        return set()
    found = store.find_facts(device)
    known.facts = {**found.facts, **known.facts}
    known.kept[store.place] = set(found.facts)
    again = {name for name, tries in found.tries.items() if tries < MOST_TRIES}
    known.given_up.update(found.tries.keys() - again)
    return again - known.unanswered - known.facts.keys()


def _settled(device: DeviceInfo, quantised: bool, tries: bool) -> DeviceInfo:
    """The device with the facts for plans; which these are, some of them tell."""
    asked: set[str] = set()
    while True:
        groups = facts_for_plans(device, quantised)
        group = next((names for names in groups if not asked.issuperset(names)), None)
        if group is None:
            return device
        asked.update(group)
        unknown = [name for name in group if not device.knows(name)]
        device = device.with_facts(_answers(device, unknown, tries))


def _answers(device: DeviceInfo, names: Collection[str], tries: bool) -> dict[str, Fact]:
    """Those of the facts that are known, or that a trial tells."""
    known = _known[device]
    missing = [name for name in names if name not in known.facts and name not in known.unanswered]
    if tries and missing:
        began = time.perf_counter()
        told = backend_of(device).probe(device, missing)
        known.facts.update(told)
        _log_trial(device, missing, told, time.perf_counter() - began)
        silent = [name for name in missing if name not in told]
        known.unanswered.update(silent)
        if silent:
            told_nothing = f"a trial of {device.name} did not answer"
            log.warn_once(f"{told_nothing}: {', '.join(silent)} count as absent for now")
    return {name: known.facts[name] for name in names if name in known.facts}


def _log_trial(
    device: DeviceInfo, asked: Collection[str], told: Mapping[str, Fact], seconds: float
) -> None:
    """What was asked of a driver, what it claims, and what trials told."""
    claims = {name: device.claims[name] for name in asked if name in device.claims}
    line = "tried %s on %s in %.1f ms: its driver claims %s, trials told %s"
    log.debug(line, ", ".join(asked), device.name, seconds * 1e3, claims or "nothing", dict(told))

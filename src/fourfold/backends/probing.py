"""Facts about devices that probes determine, once per process, and cached in a store.

The self-test is one of them: its result is described, and checked before a plan runs.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from itertools import chain
from threading import RLock
from typing import TYPE_CHECKING

from fourfold.backends.registry import backend_of
from fourfold.device import (
    LOOP_SELF_TEST,
    MAX_LOOP_ITERATIONS,
    UNPROMISED,
    DeviceInfo,
    Fact,
    facts_for_backends,
    facts_for_plans,
)
from fourfold.errors import DeviceError
from fourfold.support.forks import ForkSafeLock
from fourfold.support.log import Log

if TYPE_CHECKING:
    from fourfold.store.store import Store

log = Log("backends")

# A probe that hung or crashed is repeated in this many starts. After that it only runs when a plan
# is compiled: a driver that crashes each time must not slow down every start.
MAX_PROBE_ATTEMPTS = 3
_lock = ForkSafeLock(RLock)  # one probe at a time: two on one device could wait for each other
# Required by all plans, whatever their precision.
_ALWAYS = ("floats", "bytes")
_NAMES = {name: name.replace("_", " ") for name in UNPROMISED}


class _DeviceState:
    """Facts about a device known to this process."""

    def __init__(self) -> None:
        self.facts: dict[str, Fact] = {}
        self.unanswered: set[str] = set()  # probed by this process without an answer
        self.given_up: set[str] = set()  # probed without an answer by this process and earlier ones
        self.kept: dict[str, set[str]] = {}  # names that each store has, by its path


_states: defaultdict[DeviceInfo, _DeviceState] = defaultdict(_DeviceState)


def probe(device: DeviceInfo, quantised: bool = False) -> DeviceInfo:
    """Return the device with the facts that plans depend on, probing those that are unknown.

    Int8 dot products are probed only for `quantised` graphs.
    """
    with _lock:
        return _settled(device, quantised, tries=True)


def start_probes(device: DeviceInfo) -> None:
    """Start slow probes in the background; their results are needed once a model has been read."""
    with _lock:
        state = _states[device]
        settled = {*device.probed, *state.facts, *state.unanswered, *state.given_up}
        for_plans = chain.from_iterable(facts_for_plans(device, quantised=False))
        missing = {*for_plans, *facts_for_backends(device)} - settled
        if missing:
            backend_of(device).begin_probe(device, missing)


def load_facts(device: DeviceInfo, store: Store) -> DeviceInfo:
    """Return the device with those facts for plans that are known here or in a store.

    Only probes that did not answer the last time are repeated.
    """
    with _lock:
        unanswered = _take_over(device, store)
        current = _settled(device, quantised=True, tries=False)
        needed = chain.from_iterable(facts_for_plans(current, quantised=True))
        repeated = unanswered.intersection(needed)
        if repeated:
            _answers(device, sorted(repeated), tries=True)
            store_facts(device, store)
            current = _settled(device, quantised=True, tries=False)
        return current


def determine_facts(
    device: DeviceInfo, names: Collection[str], store: Store | None = None
) -> DeviceInfo:
    """Return the device with these facts: known, cached in a store, or probed now and
    stored there.
    """
    with _lock:
        unknown = [name for name in names if not device.knows(name)]
        if store is not None and not _states[device].facts.keys() >= set(unknown):
            _take_over(device, store)
        facts = _answers(device, unknown, tries=True)
        if store is not None:
            store_facts(device, store)
        return device.with_facts(facts)


def with_run_facts(device: DeviceInfo, store: Store | None = None) -> DeviceInfo:
    """Return the device with all facts needed to run plans, probed now if necessary."""
    with _lock:
        names = facts_for_backends(device)
        if store is not None and not _states[device].facts.keys() >= {*names}:
            _take_over(device, store)
        hopeless = _states[device].given_up
        return determine_facts(device, [name for name in names if name not in hopeless], store)


def add_facts(device: DeviceInfo, facts: Mapping[str, Fact]) -> None:
    """Add facts determined elsewhere for this device, for example from a prepared file."""
    with _lock:
        state = _states[device]
        state.facts = {**facts, **state.facts}


def with_known_facts(device: DeviceInfo) -> DeviceInfo:
    """Return the device with all facts that this process knows."""
    return device.with_facts(_answers(device, [*_states[device].facts], tries=False))


def store_facts(device: DeviceInfo, store: Store) -> None:
    """Store facts and unanswered probes of this process for later ones."""
    with _lock:
        state = _states[device]
        stored = state.kept.setdefault(store.place, set())
        new = {name: fact for name, fact in state.facts.items() if name not in stored}
        unanswered = state.unanswered - stored
        if new or unanswered:
            store.put_facts(device, new, unanswered)
            stored.update(new, unanswered)


def _take_over(device: DeviceInfo, store: Store) -> set[str]:
    """Load facts of a device from a store; returns those without an answer that may be probed
    again.
    """
    state = _states[device]
    if store.place in state.kept:
        return set()
    record = store.find_facts(device)
    state.facts = {**record.facts, **state.facts}
    state.kept[store.place] = set(record.facts)
    retried = {name for name, tries in record.tries.items() if tries < MAX_PROBE_ATTEMPTS}
    state.given_up.update(record.tries.keys() - retried)
    return retried - state.unanswered - state.facts.keys()


def _settled(device: DeviceInfo, quantised: bool, tries: bool) -> DeviceInfo:
    """Return the device with the facts for plans; some of them decide which others matter."""
    done: set[str] = set()
    while True:
        groups = facts_for_plans(device, quantised)
        group = next((names for names in groups if not done.issuperset(names)), None)
        if group is None:
            return device
        done.update(group)
        unknown = [name for name in group if not device.knows(name)]
        device = device.with_facts(_answers(device, unknown, tries))


def _answers(device: DeviceInfo, names: Collection[str], tries: bool) -> dict[str, Fact]:
    """Return those of the facts that are known, or that a probe determines."""
    state = _states[device]
    missing = [name for name in names if name not in state.facts and name not in state.unanswered]
    if tries and missing:
        began = time.perf_counter()
        answers = backend_of(device).probe(device, missing)
        state.facts.update(answers)
        _log_probe(device, missing, answers, time.perf_counter() - began)
        unanswered = [name for name in missing if name not in answers]
        state.unanswered.update(unanswered)
        if unanswered:
            failure = f"a probe of {device.name} did not answer"
            log.warn_once(f"{failure}: {', '.join(unanswered)} count as absent for now")
    return {name: state.facts[name] for name in names if name in state.facts}


def _log_probe(
    device: DeviceInfo, names: Collection[str], answers: Mapping[str, Fact], seconds: float
) -> None:
    """Log the probed facts, the driver's claims, and the results."""
    claims = {name: device.claims[name] for name in names if name in device.claims}
    line = "probed %s on %s in %.1f ms: the driver claims %s, the probes found %s"
    log.debug(
        line, ", ".join(names), device.name, seconds * 1e3, claims or "nothing", dict(answers)
    )


def describe_verdict(device: DeviceInfo) -> str:
    """Describe in a few words what is wrong, or for a CPU which optional features are missing."""
    if not device.knows("self_test"):
        return "unknown: the self-test did not finish"
    if device.self_test:
        return f"wrong: {device.self_test}"
    probed = [name for name in UNPROMISED if device.is_cpu and device.knows(name)]
    without = [_NAMES[name] for name in probed if not getattr(device, name)]
    return f"right, without {' and '.join(without)}" if without else "right"


def check_verdict(device: DeviceInfo, precision: str, loop_rounds: int = 0) -> None:
    """Raise a DeviceError if results of a plan would be wrong; log a warning about workarounds.

    `loop_rounds` is the plan's requirement of that name.
    """
    wrong = device.self_test.split(", ") if device.self_test else ()
    refused = [name for name in wrong if name in _ALWAYS]
    if "branches" in wrong:
        raise DeviceError(
            f"{device.name} computes wrong results",
            f"a self-test kernel with many branches in a loop gives wrong results, as kernels of "
            f"models would (driver {device.driver})",
            "update its driver, or choose another device ('fourfold devices' lists them)",
        )
    if refused:
        raise DeviceError(
            f"{device.name} computes wrong results",
            f"self-test kernels for {' and '.join(refused)} do not build or give wrong results, "
            f"even with plain copies (driver {device.driver})",
            "update its driver, or choose another device ('fourfold devices' lists them)",
        )
    if "halves" in wrong and precision != "fp32":
        raise DeviceError(
            f"{device.name} stores wrong fp16 values",
            f"a self-test with fp16 storage gave wrong results (driver {device.driver})",
            "use precision='fp32', or update its driver",
        )
    if LOOP_SELF_TEST in wrong:
        _check_loops(device, loop_rounds)
    if "staging" in wrong:
        what = "copies through pinned host memory gave wrong results in a self-test"
        log.warn_once(f"{device.name}: {what}; arrays are copied by the driver instead")


def _check_loops(device: DeviceInfo, loop_rounds: int) -> None:
    what = "a self-test kernel with a long loop stops before its end"
    if loop_rounds:
        raise DeviceError(
            f"{device.name} cannot run this model",
            f"{what} (driver {device.driver}), after {MAX_LOOP_ITERATIONS} iterations as in "
            f"lavapipe; work-items of this model need {loop_rounds}",
            "update its driver, or choose another device ('fourfold devices' lists them)",
        )
    log.warn_once(f"{device.name}: {what}; models with longer loops are rejected")

"""All of a model as one plan: from a prepared file, from the store, or compiled."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from fourfold import players
from fourfold.device import DeviceInfo
from fourfold.errors import InputError
from fourfold.lazy import lazy_import
from fourfold.log import Log
from fourfold.plan import Compiled
from fourfold.runtime.request import Request, plan_key_parts
from fourfold.store.keys import device_key, program_parts
from fourfold.store.prepared import Prepared, Wanted, facts_in_row, is_for
from fourfold.store.shipped import known_choices

if TYPE_CHECKING:
    from fourfold import compile as compiler
    from fourfold.store.store import Store
else:
    compiler = lazy_import("fourfold.compile")

log = Log("runtime")


class LoadedPlan(NamedTuple):
    """A plan, the binary of its program where one is known, and where the plan came from."""

    compiled: Compiled
    binary: bytes | None
    origin: str  # 'file' (prepared), 'store' or 'model'


def load_prepared(request: Request, store: Store | None) -> LoadedPlan | None:
    """The plan in a prepared file; None where the file has the model in parts."""
    device = request.device
    with request.timings.stage("open"):
        prepared = Prepared.open(request.model)
        row = find_row(request, prepared, store)
        if prepared.is_hybrid(row):
            return None
        compiled = prepared.plan(row)
        program = compiled.plan.program
        binary = prepared.binary_for(program, device)
        if binary is None and store is not None:
            binary = store.find_binary(program_parts(program, device))
    log_missing(prepared, row, device, binary)
    return LoadedPlan(compiled, binary, "file")


def find_row(request: Request, prepared: Prepared, store: Store | None) -> Mapping[str, Any]:
    """What a prepared file has for a request: a row of its index."""
    options = request.compile_options
    wanted = Wanted(
        None if request.any_precision else options.precision,
        options.shapes or None,
        options.precision,
        request.pixels_text,
        options.signature or "",
        None if options.memory_limit is None else options.memory_limit.bytes,
        request.postprocess_text,
    )
    ask = partial(players.ask_facts, store=store)
    row = prepared.best(prepared.choose_model(request.name), request.device, wanted, ask)
    players.note_facts(request.device, facts_in_row(row, request.device))
    return row


def log_missing(
    prepared: Prepared, row: Mapping[str, Any], device: DeviceInfo, binary: bytes | None
) -> None:
    """Says in the log what a file lacks for a device."""
    if not is_for(row, device):
        made = f"{prepared.file.title} was not prepared for {device.name}"
        log.warn_once(f"{made}: it runs as for {row['device']}, built from text")
    elif binary is None and players.backend_of(device).has_binaries:
        why = f"{prepared.file.title} has no binary for driver {device.driver} of {device.name}"
        log.warn_once(f"{why}: its kernels are built from text")


class PlanLoader:
    """The plan of a model file: found in the store, or compiled and kept there."""

    def __init__(self, request: Request, store: Store | None) -> None:
        if request.name is not None:
            what = f"model={request.name!r} was passed for {request.title}"
            raise InputError(what, "only a prepared file holds several models", "leave model= out")
        self._request, self._store = request, store

    @cached_property
    def _choices(self) -> Mapping[str, str]:
        return tuned_choices(self._request.device, self._store)

    def find(self) -> LoadedPlan | None:
        """The plan that is kept, unless tuning has since found better choices, or limits fell."""
        if self._store is None:
            return None
        with self._request.timings.stage("open"):
            compiled = self._store.find_plan(plan_key_parts(self._request, self._store))
            device = players.recall_facts(self._request.device, self._store)
            outdated = () if compiled is None else why_outdated(compiled, self._choices, device)
            if compiled is None or outdated:
                log.debug("%s is compiled: %s", self._request.title, outdated or "no plan is kept")
                return None
            return LoadedPlan(compiled, self._binary(self._store, compiled), "store")

    def compile(self) -> LoadedPlan:
        """The long way; UnsupportedError where the device cannot take all of the model."""
        compiled = compile_request(self._request, self._choices)
        if self._store is None:
            return LoadedPlan(compiled, None, "model")
        with self._request.timings.stage("keep"):
            players.keep_facts(self._request.device, self._store)  # they are part of the key
            if compiled.lasts:
                parts = plan_key_parts(self._request, self._store)
                self._store.put_plan(self._request.title, parts, compiled)
            return LoadedPlan(compiled, self._binary(self._store, compiled), "model")

    def _binary(self, store: Store, compiled: Compiled) -> bytes | None:
        return store.find_binary(program_parts(compiled.plan.program, self._request.device))


def tuned_choices(device: DeviceInfo, store: Store | None) -> Mapping[str, str]:
    """What was found best on a device: what the package ships, and over it what was found here."""
    shipped = known_choices(device)
    return shipped if store is None else {**shipped, **store.choices(device_key(device))}


def why_outdated(
    compiled: Compiled, tuned: Mapping[str, str], device: DeviceInfo
) -> tuple[str, ...]:
    """Why a plan that was kept is not played: a choice that it rests on is no longer the one that
    is kept, or a limit of the device is below what it needs. Nothing where it is.
    """
    same = all(tuned.get(key) == choice for key, choice in compiled.choices.items())
    better = () if same else ("tuning has found better choices since",)
    return (*better, *compiled.plan.requirements.over_limits(device))


def compile_request(request: Request, tuned: Mapping[str, str]) -> Compiled:
    """Reads, rewrites and lowers all of the model."""
    players.begin_trials(request.device)
    if request.plays:
        players.backend_of(request.device).start_compiler(request.device)
    with request.timings.stage("imports"):
        compile_model = compiler.compile_model
    compiled: Compiled = compile_model(
        request.readable.content, request.device, request.compile_options, tuned, request.timings
    )
    return compiled

"""Loading: finds a compiled model in a prepared file or in the store, or compiles it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from fourfold import backends
from fourfold.config import DATA
from fourfold.device import DeviceInfo
from fourfold.errors import InputError
from fourfold.plan import CompiledModel, Plan
from fourfold.runtime.binary_cache import start_player
from fourfold.runtime.request import Request, model_key_parts
from fourfold.store.keys import Parts, device_key, program_parts
from fourfold.store.prepared import Prepared, facts_in_row, is_for, is_prepared
from fourfold.store.shipped import known_choices
from fourfold.support.lazy import lazy_import
from fourfold.support.log import DEBUG, Log

if TYPE_CHECKING:
    from fourfold.backends.cpu import registry as engines
    from fourfold.compiler import compile as compiler
    from fourfold.plan import placement as placements
    from fourfold.store.store import Store
else:
    engines = lazy_import("fourfold.backends.cpu.registry")
    compiler = lazy_import("fourfold.compiler.compile")
    placements = lazy_import("fourfold.plan.placement")

log = Log("runtime")
NATIVE_LANGUAGES = ("opencl", "cuda")  # their kernels may use any pointer; others are checked
FindBinary = Callable[[Plan], "bytes | None"]


class LoadResult(NamedTuple):
    """A compiled model, where it came from, and a function that finds binaries of its plans."""

    model: CompiledModel
    origin: str  # 'file' (prepared), 'store' or 'model'
    find_binary: FindBinary


def load_compiled(request: Request, store: Store | None) -> LoadResult:
    """Return the compiled model of a request, from the first source that has it."""
    if is_prepared(request.model):
        loaded = _from_file(request, store)
    else:
        if request.name is not None:
            what = f"model={request.name!r} was passed for {request.title}"
            raise InputError(what, "only a prepared file holds several models", "leave model= out")
        stored = None if store is None else _from_store(request, store)
        if stored is None:
            model = compile_request(request, tuned_choices(request.device, store))
            _store_model(request, store, model)
            stored = LoadResult(model, "model", partial(_stored_binary, store, request.device))
        loaded = stored
    _report_fallbacks(request, loaded.model)
    return loaded


def _embedded_model(request: Request, store: Store | None) -> Request | None:
    """Return the request of the model file inside a prepared file whose kernels would be native
    code. None if they would not, or if the file holds no model.
    """
    if _is_isolated(request.device, store):
        return None
    prepared = Prepared.open(request.model, DATA)
    content = prepared.source(prepared.choose_model(request.name))
    if content is None:
        return None
    return request._replace(model=content, name=None, make_readable=None)


def _from_file(request: Request, store: Store | None) -> LoadResult:
    if request.config.trust == DATA:
        embedded = _embedded_model(request, store)
        if embedded is not None:
            return load_compiled(embedded, store)
    device = request.device
    with request.timings.stage("open"):
        prepared = Prepared.open(request.model, request.config.trust)
        row = find_row(request, prepared, store)
        model = prepared.model(row)
        _check_can_place(request, model)
        if request.config.trust == DATA and model.plans and not _is_isolated(device, store):
            raise _not_isolated(request)
        binaries = {plan.program: prepared.binary_for(plan.program, device) for plan in model.plans}
        for program, binary in binaries.items():
            if binary is None and store is not None:
                binaries[program] = store.find_binary(program_parts(program, device))
    _log_missing(prepared, row, device, None in binaries.values())
    return LoadResult(model, "file", lambda plan: binaries[plan.program])


def _check_can_place(request: Request, model: CompiledModel) -> None:
    """Raise an InputError if the request needs another placement: a file holds only one."""
    if request.placement_options.only_cpu and model.plans:
        what = f"{request.title} cannot run on the CPU engines"
        why = "it was prepared to run on a device, and does not hold the original model"
        raise InputError(what, why, "open the original model, or leave placement out")


def _is_isolated(device: DeviceInfo, store: Store | None) -> bool:
    """Return False if kernels that a file holds as text would be native code that reaches all
    memory of this process: on a CPU, or on a GPU that takes any address of the host.
    """
    if device.language not in NATIVE_LANGUAGES:
        return True
    if device.is_cpu:
        return False
    return not backends.determine_facts(device, ("host_pointers",), store).host_pointers


def _not_isolated(request: Request) -> InputError:
    return InputError(
        f"{request.title} cannot run on {request.device.name} with trust='data'",
        "its kernels would be compiled to code that reaches all memory of this process, and it does"
        " not hold the original model to make them from again",
        "open the original model, or pass trust='all' if you made the file; 'fourfold prepare"
        " --include-model' writes files that hold their model",
    )


def find_row(request: Request, prepared: Prepared, store: Store | None) -> Mapping[str, Any]:
    """Return the row of a prepared file's index that fits a request best."""
    ask = partial(backends.determine_facts, store=store)
    model = prepared.choose_model(request.name)
    row = prepared.best(model, request.device, request.compile_options, ask)
    backends.add_facts(request.device, facts_in_row(row, request.device))
    return row


def _log_missing(
    prepared: Prepared, row: Mapping[str, Any], device: DeviceInfo, without_binary: bool
) -> None:
    """Log what a file lacks for a device."""
    if not is_for(row, device):
        reason = f"{prepared.file.title} was not prepared for {device.name}"
        log.warn_once(f"{reason}: it runs the plan of {row['device']}, compiled from source")
    elif without_binary and backends.backend_of(device).has_binaries:
        why = f"{prepared.file.title} has no binary for driver {device.driver} of {device.name}"
        log.warn_once(f"{why}: its kernels are compiled from source")


def _from_store(request: Request, store: Store) -> LoadResult | None:
    """Return the stored model, unless it is out of date."""
    with request.timings.stage("open"):
        model = store.find_model(model_key_parts(request, store))
        outdated = () if model is None else why_outdated(request, store, model)
        if model is None or outdated:
            log.debug("%s is compiled: %s", request.title, outdated or "nothing is stored")
            return None
    return LoadResult(model, "store", partial(_stored_binary, store, request.device))


def _stored_binary(store: Store | None, device: DeviceInfo, plan: Plan) -> bytes | None:
    return None if store is None else store.find_binary(program_parts(plan.program, device))


def _store_model(request: Request, store: Store | None, model: CompiledModel) -> None:
    if store is not None:
        with request.timings.stage("keep"):
            backends.store_facts(request.device, store)  # facts are part of the key
            if model.cacheable and model.is_data:
                store.put_model(request.title, model_key_parts(request, store), model)


def compile_request(request: Request, choices: Mapping[str, str]) -> CompiledModel:
    """Read, place and lower the model of a request."""
    if not request.placement_options.only_cpu:
        backends.start_probes(request.device)
        if request.plays:
            backends.backend_of(request.device).start_compiler(request.device)
    with request.timings.stage("imports"):
        compile_model = compiler.compile_model
    readable = request.readable
    model: CompiledModel = compile_model(
        readable.content,
        request.device,
        request.compile_options,
        request.placement_options,
        choices,
        timings=request.timings,
        title=request.title,
        origin=readable.origin,
    )
    if log.hears(DEBUG) and not model.is_whole:
        for line in placements.Placement.from_bytes(model.placement).lines():
            log.debug("%s: %s", request.title, line.strip())
    return model


def _report_fallbacks(request: Request, model: CompiledModel) -> None:
    """Report operators that stay on the CPU: as an error with strict=True, or to the callback."""
    options = request.placement_options
    if model.is_whole or not (options.strict or options.on_fallback):
        return
    placement = placements.Placement.from_bytes(model.placement)
    if options.strict and not placement.whole:
        raise placement.why_not_whole(request.title)
    if options.on_fallback is not None:
        for row in placement.fallbacks:
            options.on_fallback(row)


def tuned_choices(device: DeviceInfo, store: Store | None) -> Mapping[str, str]:
    """Return the best choices for a device: those the package ships, then those found here."""
    shipped = known_choices(device)
    return shipped if store is None else {**shipped, **store.choices(device_key(device))}


def why_stored_is_unused(request: Request, store: Store, parts: Parts) -> tuple[str, ...]:
    """Return why a stored model with these parts is not used; () where it is, or none exists."""
    model = store.find_model(parts, counted=False)
    return () if model is None else why_outdated(request, store, model)


def why_outdated(request: Request, store: Store, model: CompiledModel) -> tuple[str, ...]:
    """Return why a stored model cannot be used any more; () where it can.

    Tuning may have found better choices, a limit of the device may have shrunk, or the CPU engines
    that a part of the model runs in may have changed.
    """
    device = backends.load_facts(request.device, store)
    choices = tuned_choices(request.device, store)
    same = all(choices.get(key) == choice for key, choice in model.choices.items())
    reasons = [] if same else ["tuning has found better choices since"]
    reasons += model.requirements.over_limits(device)
    if model.environment:
        now = engines.placement_environment(request.placement_options.thread_count)
        changed = [name for name in now if now[name] != model.environment.get(name)]
        reasons += [f"{name} changed from {model.environment.get(name)!r}" for name in changed]
    return tuple(reasons)


class PlayerFactory:
    """Opens the plans of a model, each from its binary if there is one."""

    def __init__(self, request: Request, store: Store | None, find: FindBinary) -> None:
        self._request, self._store, self._find = request, store, find
        self.built = False  # whether a program had to be compiled from source

    def __call__(self, plan: Plan) -> backends.Player:
        binary = self._find(plan)
        self.built = self.built or binary is None
        return start_player(self._request, plan, binary, self._store)

"""A model in parts: from a prepared file, from the store, or by placing it anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from fourfold.cpu.registry import runtime_versions
from fourfold.custom import CUSTOM_OPS
from fourfold.device import DeviceInfo
from fourfold.errors import InputError
from fourfold.lazy import lazy_import
from fourfold.log import DEBUG, Log
from fourfold.plan import Plan, Program
from fourfold.plan.hybrid import HybridPlan, hybrid_sections, read_hybrid
from fourfold.players import Player, keep_facts, recall_facts
from fourfold.runtime.binary_cache import start_player
from fourfold.runtime.hybrid_player import HybridPlayer, make_hybrid_player
from fourfold.runtime.loading import find_row, log_missing, tuned_choices, why_outdated
from fourfold.runtime.request import Request, plan_key_parts
from fourfold.store.entry import HYBRID, PLAN, read_compiled
from fourfold.store.keys import Parts, program_parts
from fourfold.store.prepared import Prepared, is_prepared
from fourfold.store.store import Store
from fourfold.targets import NUMPY

log = Log("runtime")
FindBinary = Callable[[Program, DeviceInfo], bytes | None]

if TYPE_CHECKING:
    from fourfold import placement as placements
    from fourfold.compile import hybrid as compiler
    from fourfold.compile import placement as placer
else:
    compiler = lazy_import("fourfold.compile.hybrid")
    placer = lazy_import("fourfold.compile.placement")
    placements = lazy_import("fourfold.placement")


class LoadedHybrid:
    """A model made ready in parts. `compiled` describes all of the GPU's parts as one plan."""

    def __init__(self, player: HybridPlayer, hybrid: HybridPlan, origin: str, built: bool) -> None:
        self.player, self.compiled, self.plan = player, hybrid.compiled, hybrid
        self.origin = origin  # 'file' (prepared), 'store' or 'model'
        self.built = built  # whether a program had to be built from text

    @property
    def only_numpy(self) -> bool:
        """Whether all of it runs by definitions, and nothing in a runtime made for the CPU."""
        return all(part.target == NUMPY for part in self.plan.parts)

    @cached_property
    def placement(self) -> placements.Placement:
        return placements.Placement.from_record(self.plan.placement)


class PlayerFactory:
    """Makes players of the GPU's parts, each with its binary where one is known."""

    def __init__(self, request: Request, store: Store | None, find: FindBinary) -> None:
        self._request, self._store, self._find = request, store, find
        self.built = False  # whether a program had to be built from text

    def __call__(self, plan: Plan) -> Player:
        device = self._request.device
        binary = self._find(plan.program, device)
        if binary is None and self._store is not None:
            binary = self._store.find_binary(program_parts(plan.program, device))
        self.built = self.built or binary is None
        return start_player(self._request, plan, binary, self._store)


def load_hybrid(
    request: Request, store: Store | None, make_room: Callable[[int], None] = lambda needed: None
) -> LoadedHybrid:
    """Places a model, plans the GPU's parts and builds them, with what is kept of all that."""
    found = find_hybrid(request, store)
    make_room(found.hybrid.compiled.plan.device_bytes)
    factory = PlayerFactory(request, store, found.find_binary)
    loaded = _make_ready(request, found.hybrid, found.origin, factory)
    if found.prepared is not None:
        log_missing(*found.prepared, request.device, None if factory.built else b"")
    return loaded


class FoundHybrid(NamedTuple):
    """A model in parts that nobody plays yet, where it came from, and who knows binaries of it; of
    a prepared file, that and the row of its index.
    """

    hybrid: HybridPlan
    origin: str
    find_binary: FindBinary
    prepared: tuple[Prepared, Mapping[str, Any]] | None = None


def find_hybrid(request: Request, store: Store | None) -> FoundHybrid:
    """A model in parts: in a prepared file, kept in the store, or placed and planned now."""
    if is_prepared(request.model):
        return _from_file(request, store)
    hybrid = None if store is None else _from_store(request, store)
    if hybrid is not None:
        return FoundHybrid(hybrid, "store", lambda program, device: None)
    return FoundHybrid(_compile(request, store), "model", lambda program, device: None)


def _from_file(request: Request, store: Store | None) -> FoundHybrid:
    with request.timings.stage("open"):
        prepared = Prepared.open(request.model)
        row = find_row(request, prepared, store)
        if not prepared.is_hybrid(row):
            what, why = f"{request.title} cannot be placed anew", "it was prepared as a whole"
            raise InputError(what, why, "open the original model, or leave placement out")
        hybrid = read_hybrid(prepared.file, row["sections"])
    return FoundHybrid(hybrid, "file", prepared.binary_for, (prepared, row))


def _from_store(request: Request, store: Store) -> HybridPlan | None:
    """What is kept, unless tuning has since found better choices, or limits fell; the strict are
    told anew.
    """
    if request.placement_options.strict:
        return None
    with request.timings.stage("open"):
        hybrid = store.find(HYBRID, hybrid_key_parts(request, store), _read_entry)
        choices, device = tuned_choices(request.device, store), recall_facts(request.device, store)
        if hybrid is None or why_outdated(hybrid.compiled, choices, device):
            return None
        return hybrid


def why_made_anew(request: Request, store: Store, parts: Parts) -> tuple[str, ...]:
    """Why what is kept under these parts, a plan or a model in parts, is not used; nothing where it
    is, or where nothing is kept.
    """
    if parts["kind of entry"] == HYBRID:
        hybrid = store.find(HYBRID, parts, _read_entry, counted=False)
        compiled = None if hybrid is None else hybrid.compiled
    else:
        compiled = store.find(PLAN, parts, read_compiled, counted=False)
    if compiled is None:
        return ()
    device = recall_facts(request.device, store)
    return why_outdated(compiled, tuned_choices(request.device, store), device)


def _read_entry(file: Any) -> HybridPlan:
    return read_hybrid(file, range(1, len(file.names)))


def _compile(request: Request, store: Store | None) -> HybridPlan:
    """The long way: the model is read, placed and planned, and kept where it is plain data."""
    with request.timings.stage("place"):
        choices = tuned_choices(request.device, store)
        hybrid = compiler.compile_hybrid(_placement_problem(request), choices)
        _log_placement(request, hybrid)
        if store is not None:
            keep_facts(request.device, store)  # they are part of the key
        if store is not None and hybrid.is_data and not _has_custom(hybrid):
            parts = hybrid_key_parts(request, store)
            store.put(HYBRID, request.title, parts, hybrid_sections(hybrid))
    return hybrid


def _log_placement(request: Request, hybrid: HybridPlan) -> None:
    if log.hears(DEBUG):
        for line in placements.Placement.from_record(hybrid.placement).lines():
            log.debug("%s: %s", request.title, line.strip())


def _has_custom(hybrid: HybridPlan) -> bool:
    """Whether an op that the caller registered may be in it: its code is not in the key."""
    rows = hybrid.placement["rows"] if CUSTOM_OPS else ()
    return any(row["op"].startswith("CUSTOM") for row in rows)


def _make_ready(
    request: Request, hybrid: HybridPlan, origin: str, factory: PlayerFactory
) -> LoadedHybrid:
    options = request.placement_options
    player = make_hybrid_player(hybrid, factory, options.thread_count)
    loaded = LoadedHybrid(player, hybrid, origin, factory.built)
    if origin != "model" and options.on_fallback is not None:  # else the compiler has told it
        for row in loaded.placement.fallbacks:
            options.on_fallback(row)
    return loaded


def is_kept_in_parts(request: Request, store: Store) -> bool:
    """Whether it is known that this model runs in parts, and how."""
    return store.has(hybrid_key_parts(request, store))


def hybrid_key_parts(request: Request, store: Store) -> Parts:
    """The labelled parts of the key under which a model in parts is kept."""
    options = request.placement_options
    return {
        **plan_key_parts(request, store),
        "kind of entry": HYBRID,
        "placement": f"{options.placement}, at most {options.max_partitions}: {options.reason}",
        "threads": str(options.thread_count),
        "CPU engines": ", ".join(runtime_versions()),
        "custom ops": ", ".join(sorted(CUSTOM_OPS)),
    }


def explain_placement(request: Request) -> placements.Placement:
    """Where a model runs that was opened as a whole, told from its file."""
    return placer.describe_whole(_placement_problem(request))


def _placement_problem(request: Request) -> placer.PlacementProblem:
    readable = request.readable
    return placer.read_problem(
        readable.content,
        request.title,
        request.device,
        request.compile_options,
        request.placement_options,
        readable.origin,
    )

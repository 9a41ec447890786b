"""Opens a model in parts: from a prepared file, from the store, or by placing it anew."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fourfold.cpu import litert
from fourfold.custom import CUSTOM_OPS
from fourfold.errors import InputError
from fourfold.lazy import lazy_import
from fourfold.options import PlacementOptions
from fourfold.plan import Compiled, Plan
from fourfold.plan.hybrid import HybridPlan, hybrid_sections, read_hybrid
from fourfold.players import Player, keep_facts
from fourfold.runtime.hybrid_player import HybridPlayer, make_hybrid_player
from fourfold.runtime.loading import (
    LoadedPlan,
    Request,
    find_prepared,
    make_player,
    request_parts,
    still_holds,
    tell_prepared,
    tuned_choices,
)
from fourfold.store.entry import HYBRID
from fourfold.store.keys import Parts, program_parts
from fourfold.store.prepared import Prepared, is_prepared
from fourfold.store.store import Store

FindBinary = Callable[[Parts], bytes | None]

if TYPE_CHECKING:
    from fourfold.compile import placement as placing
    from fourfold.split import placement as placements
else:
    placing = lazy_import("fourfold.compile.placement")
    placements = lazy_import("fourfold.split.placement")


class LoadedHybrid:
    """A model made ready in parts. `compiled` describes all of the GPU's parts as one plan."""

    def __init__(self, player: HybridPlayer, parted: HybridPlan, origin: str, built: bool) -> None:
        self.player, self.compiled, self._parted = player, parted.compiled, parted
        self.origin = origin  # 'file' (prepared), 'store' or 'model'
        self.built = built  # whether a program had to be built from text

    @cached_property
    def placement(self) -> placements.Placement:
        return placements.Placement.of_record(self._parted.placement)


class PlayerFactory:
    """Makes players of the GPU's parts, each with its binary where one is known."""

    def __init__(self, request: Request, store: Store | None, find: FindBinary) -> None:
        self._request, self._store, self._find = request, store, find
        self.built = False  # whether a program had to be built from text

    def __call__(self, plan: Plan) -> Player:
        parts = program_parts(plan.program, self._request.device)
        binary = self._find(parts)
        if binary is None and self._store is not None:
            binary = self._store.find_binary(parts)
        self.built = self.built or binary is None
        timings = self._request.timings
        before = {stage: timings.get(stage, 0.0) for stage in ("build", "upload")}
        opened = LoadedPlan(Compiled(plan, (), ()), binary, "")
        player = make_player(self._request, opened, self._store)
        timings.update({stage: timings[stage] + took for stage, took in before.items()})
        return player


def load_hybrid(request: Request, store: Store | None, wishes: PlacementOptions) -> LoadedHybrid:
    """Places a model, plans the GPU's parts and builds them, with what is kept of all that."""
    if is_prepared(request.model):
        return _from_file(request, store, wishes)
    began = time.perf_counter()
    parted, origin = _from_store(request, store, wishes)
    request.timings["place" if origin == "model" else "open"] = time.perf_counter() - began
    factory = PlayerFactory(request, store, lambda parts: None)
    return _ready(parted, origin, factory, wishes)


def _from_file(request: Request, store: Store | None, wishes: PlacementOptions) -> LoadedHybrid:
    began = time.perf_counter()
    prepared = Prepared.open(request.model)
    row = find_prepared(request, prepared, store)
    if not prepared.is_hybrid(row):
        what, why = f"{request.title} cannot be placed anew", "it was prepared as a whole"
        raise InputError(what, why, "open the original model, or leave placement out")
    parted = read_hybrid(prepared.file, row["sections"])
    request.timings["open"] = time.perf_counter() - began
    factory = PlayerFactory(request, store, prepared.binary)
    placed = _ready(parted, "file", factory, wishes)
    tell_prepared(prepared, row, request.device, None if factory.built else b"")
    return placed


def _ready(
    parted: HybridPlan, origin: str, factory: PlayerFactory, wishes: PlacementOptions
) -> LoadedHybrid:
    player = make_hybrid_player(parted, factory, wishes.workers)
    placed = LoadedHybrid(player, parted, origin, factory.built)
    if origin != "model" and wishes.on_fallback is not None:
        for row in placed.placement.fallbacks:
            wishes.on_fallback(row)
    return placed


def _from_store(
    request: Request, store: Store | None, wishes: PlacementOptions
) -> tuple[HybridPlan, str]:
    if store is None:
        return compile_hybrid_request(request, wishes, None), "model"
    parts = hybrid_key_parts(request, store, wishes)
    parted = None if wishes.strict else store.find(HYBRID, parts, _read_entry)
    if parted is not None and still_holds(parted.compiled, tuned_choices(request, store)):
        return parted, "store"
    parted = compile_hybrid_request(request, wishes, store)
    keep_facts(request.device, store)
    if parted.keepable and not _has_custom(parted):
        parts = hybrid_key_parts(request, store, wishes)
        store.put(HYBRID, request.title, parts, hybrid_sections(parted))
    return parted, "model"


def _read_entry(file: Any) -> HybridPlan:
    return read_hybrid(file, range(1, len(file.names)))


def _has_custom(parted: HybridPlan) -> bool:
    """Whether an op that the caller registered may be in it: its code is not in the key."""
    rows = parted.placement["rows"] if CUSTOM_OPS else ()
    return any(row["op"].startswith("CUSTOM") for row in rows)


def is_in_parts(request: Request, store: Store, wishes: PlacementOptions) -> bool:
    """Whether it is known that this model runs in parts, and how."""
    return store.has(hybrid_key_parts(request, store, wishes))


def hybrid_key_parts(request: Request, store: Store, wishes: PlacementOptions) -> Parts:
    """The labelled parts of the key under which a model in parts is kept."""
    return {
        **request_parts(request, store),
        "kind of entry": HYBRID,
        "placement": f"{wishes.placement}, at most {wishes.max_partitions}: {wishes.reason}",
        "threads": str(wishes.workers),
        "litert": litert.version(),
        "custom ops": ", ".join(sorted(CUSTOM_OPS)),
    }


def compile_hybrid_request(
    request: Request, wishes: PlacementOptions, store: Store | None
) -> HybridPlan:
    """The long way: the model is read, placed and planned."""
    return placing.compile_hybrid(_situation(request, wishes), tuned_choices(request, store))


def explain_placement(request: Request, wishes: PlacementOptions) -> placements.Placement:
    """Where a model runs that was opened as a whole, told from its file."""
    return placing.describe_whole(_situation(request, wishes))


def _situation(request: Request, wishes: PlacementOptions) -> placing.PlacementProblem:
    how = (request.device, request.wish(), wishes)
    return placing.read_problem(request.model, request.title, *how)

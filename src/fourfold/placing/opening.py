"""Opens a model in parts: from a prepared file, from the store, or by deciding anew."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fourfold.cpu import litert
from fourfold.custom import CUSTOM_OPS
from fourfold.errors import InputError
from fourfold.later import later
from fourfold.opening import (
    Opened,
    Request,
    find_prepared,
    make_player,
    request_parts,
    still_holds,
    tell_prepared,
    tuned_choices,
)
from fourfold.placing.parted import Parted, parted_sections, read_parted
from fourfold.placing.player import PartsPlayer, make_parts_player
from fourfold.placing.wishes import Wishes
from fourfold.plan import Compiled, Plan
from fourfold.players.opencl import Player
from fourfold.store.entry import PARTS
from fourfold.store.keys import Parts, program_parts
from fourfold.store.prepared import Prepared, is_prepared
from fourfold.store.store import Store

FindBinary = Callable[[Parts], bytes | None]

if TYPE_CHECKING:
    from fourfold.placing import deciding
    from fourfold.split import placement as placements
else:
    deciding = later("fourfold.placing.deciding")
    placements = later("fourfold.split.placement")


class Placed:
    """A model made ready in parts. `compiled` describes all of the GPU's parts as one plan."""

    def __init__(self, player: PartsPlayer, parted: Parted, origin: str, built: bool) -> None:
        self.player, self.compiled, self._parted = player, parted.compiled, parted
        self.origin = origin  # 'file' (prepared), 'store' or 'model'
        self.built = built  # whether a program had to be built from text

    @cached_property
    def placement(self) -> placements.Placement:
        return placements.Placement.of_record(self._parted.placement)


class Builder:
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
        opened = Opened(Compiled(plan, (), ()), binary, "")
        player = make_player(self._request, opened, self._store)
        timings.update({stage: timings[stage] + took for stage, took in before.items()})
        return player


def open_parts(request: Request, store: Store | None, wishes: Wishes) -> Placed:
    """Places a model, plans the GPU's parts and builds them, with what is kept of all that."""
    if is_prepared(request.model):
        return _from_file(request, store, wishes)
    began = time.perf_counter()
    parted, origin = _from_store(request, store, wishes)
    request.timings["place" if origin == "model" else "open"] = time.perf_counter() - began
    builder = Builder(request, store, lambda parts: None)
    return _ready(parted, origin, builder, wishes)


def _from_file(request: Request, store: Store | None, wishes: Wishes) -> Placed:
    began = time.perf_counter()
    prepared = Prepared.open(request.model)
    row = find_prepared(request, prepared)
    if not prepared.is_placed(row):
        what, why = f"{request.title} cannot be placed anew", "it was prepared as a whole"
        raise InputError(what, why, "open the original model, or leave placement out")
    parted = read_parted(prepared.file, row["sections"])
    request.timings["open"] = time.perf_counter() - began
    builder = Builder(request, store, prepared.binary)
    placed = _ready(parted, "file", builder, wishes)
    tell_prepared(prepared, row, request.device, None if builder.built else b"")
    return placed


def _ready(parted: Parted, origin: str, builder: Builder, wishes: Wishes) -> Placed:
    player = make_parts_player(parted, builder, wishes.workers)
    placed = Placed(player, parted, origin, builder.built)
    if origin != "model" and wishes.on_fallback is not None:
        for row in placed.placement.fallbacks:
            wishes.on_fallback(row)
    return placed


def _from_store(request: Request, store: Store | None, wishes: Wishes) -> tuple[Parted, str]:
    if store is None:
        return part_request(request, wishes, None), "model"
    parts = parted_parts(request, store, wishes)
    parted = None if wishes.strict else store.find(PARTS, parts, _read_entry)
    if parted is not None and still_holds(parted.compiled, tuned_choices(request, store)):
        return parted, "store"
    parted = part_request(request, wishes, store)
    if parted.keepable and not _has_custom(parted):
        store.put(PARTS, request.title, parts, parted_sections(parted))
    return parted, "model"


def _read_entry(file: Any) -> Parted:
    return read_parted(file, range(1, len(file.names)))


def _has_custom(parted: Parted) -> bool:
    """Whether an op that the caller registered may be in it: its code is not in the key."""
    rows = parted.placement["rows"] if CUSTOM_OPS else ()
    return any(row["op"].startswith("CUSTOM") for row in rows)


def is_in_parts(request: Request, store: Store, wishes: Wishes) -> bool:
    """Whether it is known that this model runs in parts, and how."""
    return store.has(parted_parts(request, store, wishes))


def parted_parts(request: Request, store: Store, wishes: Wishes) -> Parts:
    """The labelled parts of the key under which a model in parts is kept."""
    return {
        **request_parts(request, store),
        "kind of entry": PARTS,
        "placement": f"{wishes.placement}, at most {wishes.max_partitions}: {wishes.reason}",
        "threads": str(wishes.workers),
        "litert": litert.version(),
        "custom ops": ", ".join(sorted(CUSTOM_OPS)),
    }


def part_request(request: Request, wishes: Wishes, store: Store | None) -> Parted:
    """The long way: the model is read, placed and planned."""
    return deciding.part_model(_situation(request, wishes), tuned_choices(request, store))


def explain_placement(request: Request, wishes: Wishes) -> placements.Placement:
    """Where a model runs that was opened as a whole, told from its file."""
    return deciding.describe_whole(_situation(request, wishes))


def _situation(request: Request, wishes: Wishes) -> deciding.Situation:
    how = (request.device, request.wish(), wishes)
    return deciding.read_situation(request.model, request.title, *how)

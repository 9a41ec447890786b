"""How a model is made ready: from a prepared file, from the store, or the long way."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from fourfold import players
from fourfold.config import Config
from fourfold.device import DeviceInfo
from fourfold.errors import InputError
from fourfold.lazy import lazy_import
from fourfold.plan import Compiled, Plan
from fourfold.store.keys import Parts, device_key, digest, plan_parts, program_parts
from fourfold.store.log import log_once
from fourfold.store.prepared import Prepared, is_for, is_prepared
from fourfold.store.shipped import known_choices
from fourfold.types import Shape

if TYPE_CHECKING:
    from fourfold import compile as chain
    from fourfold import pixels as pictures
    from fourfold.store.store import Store
else:
    chain = lazy_import("fourfold.compile")  # the stages that make plans
    pictures = lazy_import("fourfold.pixels")

Model = str | os.PathLike[str] | bytes


@dataclass(frozen=True)
class Request:
    """What is to be opened, where, and how. `precision` is None where the caller did not say."""

    model: str | bytes
    device: DeviceInfo
    config: Config
    precision: str | None = None
    shapes: Mapping[str, Shape] | None = None
    name: str | None = None  # of a model among several in a prepared file
    token: str = ""  # of the caller, one more part of the key
    quantized: bool = True  # whether quantised operators may run as their float view
    follow: bool = True  # whether a batch goes through reshapes that have another one in them
    pixels: pictures.Given | None = None  # inputs that come as the bytes of pictures
    timings: dict[str, float] = field(default_factory=dict)

    @property
    def wanted_precision(self) -> str:
        return self.precision or self.config.precision

    @property
    def literal(self) -> bool:
        """Sizes as numbers make the best code on some GPUs, as parameters few builds."""
        return self.config.sizes == "literal"

    @property
    def pixels_text(self) -> str:
        return "" if self.pixels is None else str(pictures.pixels_text(self.pixels))

    def wish(self, form: str | None = None) -> chain.CompileOptions:
        """How a plan is to be made for it."""
        return chain.CompileOptions(
            precision=self.wanted_precision,
            literal=self.literal,
            shapes=dict(self.shapes or {}),
            form=form or self.config.launches,
            quantized=self.quantized,
            follow=self.follow,
            pixels=self.pixels,
        )

    @property
    def title(self) -> str:
        return (
            "a model in memory" if isinstance(self.model, bytes) else os.path.basename(self.model)
        )


class LoadedPlan(NamedTuple):
    """A model made ready: its plan, its binary where one is known, and where the plan came from."""

    compiled: Compiled
    binary: bytes | None
    origin: str  # 'file' (prepared), 'store' or 'model'


def load_plan(
    request: Request, store: Store | None, in_parts: Callable[[Store], bool]
) -> LoadedPlan | None:
    """A model as one plan; None where it is known that it cannot be one, and is kept in parts."""
    if is_prepared(request.model):
        return _from_file(request, store)
    if request.name is not None:
        what = f"model={request.name!r} was passed for {request.title}"
        raise InputError(what, "only a prepared file holds several models", "leave model= out")
    if store is None:
        return LoadedPlan(compile_request(request, tuned_choices(request, None)), None, "model")
    return _from_store(request, store, in_parts)


def find_prepared(request: Request, prepared: Prepared, store: Store | None) -> Mapping[str, Any]:
    """What a prepared file has for a request: a row of its index."""
    how = (request.precision, request.shapes, request.config.precision, request.pixels_text)
    model = prepared.choose_model(request.name)
    ask = partial(players.ask_facts, store=store)
    return prepared.best(model, request.device, *how, ask=ask)


def _from_file(request: Request, store: Store | None) -> LoadedPlan | None:
    began = time.perf_counter()
    prepared, device = Prepared.open(request.model), request.device
    row = find_prepared(request, prepared, store)
    if prepared.is_hybrid(row):
        return None
    compiled = prepared.plan(row)
    parts = program_parts(compiled.plan.program, device)
    binary = prepared.binary(parts)
    if binary is None and store is not None:
        binary = store.find_binary(parts)
    request.timings["open"] = time.perf_counter() - began
    tell_prepared(prepared, row, device, binary)
    return LoadedPlan(compiled, binary, "file")


def tell_prepared(
    prepared: Prepared, row: Mapping[str, Any], device: DeviceInfo, binary: bytes | None
) -> None:
    """Says what a file lacks for a device."""
    if not is_for(row, device):
        made = f"{prepared.file.title} was not prepared for {device.name}"
        log_once(f"{made}: it runs as for {row['device']}, built from text")
    elif binary is None:
        why = f"{prepared.file.title} has no binary for driver {device.driver} of {device.name}"
        log_once(f"{why}: its kernels are built from text")


def _from_store(
    request: Request, store: Store, in_parts: Callable[[Store], bool]
) -> LoadedPlan | None:
    began = time.perf_counter()
    parts = request_parts(request, store)
    compiled = store.find_plan(parts)
    tuned = tuned_choices(request, store)
    if compiled is not None and not still_holds(compiled, tuned):
        compiled = None
    binary = None if compiled is None else _kept_binary(compiled.plan, request, store)
    request.timings["open"] = time.perf_counter() - began
    if compiled is not None:
        return LoadedPlan(compiled, binary, "store")
    if in_parts(store):
        return None
    compiled = compile_request(request, tuned)
    began = time.perf_counter()
    players.keep_facts(request.device, store)
    if compiled.lasts:
        store.put_plan(request.title, request_parts(request, store), compiled)
    binary = _kept_binary(compiled.plan, request, store)
    request.timings["keep"] = time.perf_counter() - began
    return LoadedPlan(compiled, binary, "model")


def _kept_binary(plan: Plan, request: Request, store: Store) -> bytes | None:
    return store.find_binary(program_parts(plan.program, request.device))


def tuned_choices(request: Request, store: Store | None) -> Mapping[str, str]:
    """What was found best on this device: what the package ships, and over it what was found
    here.
    """
    shipped = known_choices(request.device)
    return shipped if store is None else {**shipped, **store.choices(device_key(request.device))}


def still_holds(compiled: Compiled, tuned: Mapping[str, str]) -> bool:
    """Whether every choice that the plan rests on is still the choice that is kept."""
    return all(tuned.get(key) == choice for key, choice in compiled.choices.items())


def request_parts(request: Request, store: Store) -> Parts:
    """The labelled parts of the key under which the plan of a request is kept."""
    if isinstance(request.model, bytes):
        content = digest(request.model)
    else:
        try:
            content = store.model_digest(request.model)
        except OSError as error:
            fix = "check the path and that the file may be read"
            why = error.strerror or str(error)
            raise InputError(f"cannot open '{request.model}'", why, fix) from error
    model = {"model": content, "token": request.token}
    how = {
        "precision": request.wanted_precision,
        "sizes": str(request.literal),
        "launches": request.config.launches,
        "quantized": str(request.quantized),
        "follow": str(request.follow),
        "pixels": request.pixels_text,
    }
    device = players.recall_facts(request.device, store)
    return plan_parts(model, request.shapes or {}, device, how)


def compile_request(
    request: Request, tuned: Mapping[str, str], form: str | None = None
) -> Compiled:
    """The long way."""
    players.backend_of(request.device).start_compiler(request.device)
    began = time.perf_counter()
    wish = request.wish(form)
    request.timings["imports"] = time.perf_counter() - began
    compiled: Compiled = chain.compile_model(
        request.model, request.device, wish, tuned, request.timings
    )
    return compiled


def make_player(request: Request, opened: LoadedPlan, store: Store | None) -> players.Player:
    """A player of the plan: by its binary where there is a good one, else by the compiler."""
    plan, device, binary = opened.compiled.plan, request.device, opened.binary
    began = time.perf_counter()
    program = players.backend_of(device).live_program(device, plan.program)
    if program is None and binary is not None:
        program = _loaded(plan, device, binary, store)
    player = players.make_player(device, plan, program)
    request.timings.update(player.timings)
    request.timings["build"] = time.perf_counter() - began - player.timings["upload"]
    return player


def _loaded(
    plan: Plan, device: DeviceInfo, binary: bytes, store: Store | None
) -> players.BuiltProgram | None:
    load = players.backend_of(device).load_program
    if store is None:
        return load(device, plan.program, binary)
    with store.loading(binary) as allowed:
        program = load(device, plan.program, binary) if allowed else None
    if allowed and program is None:
        why = f"{device.name} refused a kept binary"
        log_once(f"{why}; its kernels are built from text")
        store.condemn(binary, "the driver refused it")
    return program

"""Preparation of models: plans, binaries and tuned choices are added to the draft of a file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from fourfold.backends import (
    ConnectionLost,
    Player,
    backend_of,
    find_target,
    load_facts,
    make_player,
    store_facts,
    with_known_facts,
    with_run_facts,
)
from fourfold.backends.null import NULL_GPU
from fourfold.compiler.compile import compile_model
from fourfold.compiler.placement import decide, read_problem
from fourfold.compiler.tune import LEVELS, Level, Listener, tune
from fourfold.compiler.tune.form import FORMS
from fourfold.compiler.tune.race import Result
from fourfold.device import PROBED, DeviceInfo
from fourfold.errors import FourfoldError, InputError
from fourfold.options import CompileOptions, PlacementOptions
from fourfold.plan import CompiledModel, Plan, Program
from fourfold.plan.placement import Placement
from fourfold.runtime.executor import open_executor
from fourfold.store.draft import Draft
from fourfold.store.keys import device_key, program_parts
from fourfold.store.models import digest_files, files_of
from fourfold.store.shipped import known_choices
from fourfold.store.store import Store
from fourfold.support.display import shown
from fourfold.support.log import Log
from fourfold.support.progress import Progress as Progress
from fourfold.support.timings import Timings
from fourfold.types import blank_array

log = Log("prepare")
# Generic devices, with the features that all devices of their kind have.
ANY_GPU = replace(NULL_GPU, name="any gpu", half_arithmetic=False, probed=PROBED)
ANY_CPU = replace(ANY_GPU, name="any cpu", kind="cpu", max_work_group=1024)
GENERIC = {"gpu": ANY_GPU, "cpu": ANY_CPU}
# Browsers do not report compute units. Software rendering uses the cores of a CPU.
BROWSER_UNITS, SOFTWARE_UNITS = 32, 2
ANYWHERE = PlacementOptions()
WHOLE = PlacementOptions("gpu", strict=True)  # a browser has no CPU engines
SHIPPED = LEVELS["normal"].candidates  # tuning effort behind the choices in the package


@dataclass(frozen=True)
class TuningSummary:
    """Progress and gain of tuning. `default_seconds` and `seconds` are the total times of all timed
    kernels, before and after tuning.
    """

    done: int = 0
    total: int = 0
    faster: int = 0
    default_seconds: float = 0.0
    seconds: float = 0.0

    @shown
    def __str__(self) -> str:
        if not self.total:
            return "nothing was left to tune"
        far = f"all {self.total} kernels were timed"
        if self.done < self.total:
            far = f"tuning reached its deadline: {self.done} of {self.total} kernels were timed"
        if not self.faster:
            gained = "none became faster"
        else:
            ratio = self.seconds / self.default_seconds
            gained = f"{self.faster} became faster, and the total time is {ratio:.2f}× the default"
        more = "; run the same command again to continue" if self.done < self.total else ""
        return f"{far}, {gained}{more}"


class TunedChoices(NamedTuple):
    """Kernel choices by key, and the summary of tuning; None if nothing was tuned."""

    choices: dict[str, str]
    summary: TuningSummary | None = None


class ChoiceSaver(Listener):
    """Stores each choice as soon as it is found, so that an interruption loses none."""

    def __init__(
        self, store: Store | None, device: DeviceInfo, level: Level, progress: Progress
    ) -> None:
        self._store, self._device, self._progress = store, device_key(device), progress
        self._effort = level.candidates
        self._parts: list[tuple[int, int]] = []  # of each search: keys that are done, and all keys
        self._results: list[Result] = []

    def found(self, key: str, result: Result) -> None:
        if result.choice not in FORMS:  # a form belongs to the whole plan
            self._results.append(result)
        if self._store is not None:
            self._store.put_choice(self._device, key, result.choice, result.seconds, self._effort)

    def progress(self, done: int, total: int, title: str, left: float) -> None:
        self._progress(done, total, title, left)
        if not title:  # a search has ended
            self._parts.append((done, total))

    @property
    def summary(self) -> TuningSummary:
        return TuningSummary(
            done=sum(done for done, _ in self._parts),
            total=sum(total for _, total in self._parts),
            faster=sum(one.seconds < one.default_seconds for one in self._results),
            default_seconds=sum(one.default_seconds for one in self._results),
            seconds=sum(one.seconds for one in self._results),
        )


def tune_model(
    model: str,
    device: DeviceInfo,
    options: CompileOptions,
    level: Level,
    store: Store | None,
    progress: Progress,
) -> TunedChoices:
    """Return the tuned choices for a device: those of the package and the cache, and new ones."""
    choices = dict(known_choices(device))
    efforts = dict.fromkeys(choices, SHIPPED)
    if store is not None:
        choices |= store.choices(device_key(device))
        efforts |= store.efforts(device_key(device))
        load_facts(device, store)
    if not level.candidates:
        return TunedChoices(choices)
    if not device.present:
        what, why = f"{device.name} cannot be tuned for", "kernels are timed on the device itself"
        raise InputError(what, why, "leave --tune out, and tune on the device")
    listener = ChoiceSaver(store, device, level, progress)
    with _facts_kept(device, store):
        problem = read_problem(model, device, options, title=os.path.basename(model))
        for part in decide(problem, choices).lowered.values():
            graph, info, kernel_options = part.lowering
            choices = tune(graph, info, kernel_options, level, choices, efforts, listener)
    return TunedChoices(choices, listener.summary)


@contextmanager
def _facts_kept(device: DeviceInfo, store: Store | None) -> Iterator[None]:
    """Store facts about a device that the body finds out, even if it raises an error."""
    try:
        yield
    finally:
        if store is not None:
            store_facts(device, store)


def prepare_model(
    draft: Draft,
    model: Path,
    device: DeviceInfo,
    options: CompileOptions,
    choices: Mapping[str, str],
    store: Store | None = None,
    placement: PlacementOptions = ANYWHERE,
) -> dict[str, Any]:
    """Compile a model for a device and add it to the draft; return launches, bytes and times."""
    timings = Timings()
    if store is not None:
        load_facts(device, store)
    with _facts_kept(device, store):
        if not placement.only_cpu:
            with_run_facts(device, store)  # probed facts go into the file, too
        compiled = _compile(model, device, options, placement, choices, timings)
    number = model_number(draft, model)
    draft.add_compiled(number, with_known_facts(device), compiled, options.shapes)
    used = {key: choice for key, choice in compiled.choices.items() if choice is not None}
    if used:
        draft.add_choices(device_key(device), used)
    binaries = _find_binaries(model, device, compiled, placement, store)
    for program, binary in binaries.items():
        draft.add_binary(program_parts(program, device), binary)
    size = sum(map(len, binaries.values()))
    return {"launches": len(compiled.launches), "binary": size, **timings}


def _compile(
    model: Path,
    device: DeviceInfo,
    options: CompileOptions,
    placement: PlacementOptions,
    choices: Mapping[str, str],
    timings: Timings,
) -> CompiledModel:
    """Compile a model; InputError where a file cannot hold the result."""
    compiled = compile_model(
        str(model), device, options, placement, choices, timings=timings, title=model.name
    )
    if placement.strict and not compiled.is_whole:
        raise Placement.from_bytes(compiled.placement).why_not_whole(model.name)
    if not compiled.is_data:
        why = "some of its operators are the caller's own code, which a file cannot hold"
        raise InputError(f"{model.name} cannot be prepared", why, "open the model itself instead")
    return compiled


def _find_binaries(
    model: Path,
    device: DeviceInfo,
    compiled: CompiledModel,
    placement: PlacementOptions,
    store: Store | None,
) -> dict[Program, bytes]:
    """Return the binaries of all programs of a model: stored by an interrupted preparation, or
    built now by the device's driver, or by a compiler alone for a device that is not attached.
    """
    backend = backend_of(device)
    programs = [plan.program for plan in compiled.plans]
    if not device.present:
        built = {one: backend.build_binary(device, one) for one in programs}
        return {program: binary for program, binary in built.items() if binary}
    if store is not None and programs:
        stored = {one: store.find_binary(program_parts(one, device)) for one in programs}
        good = {
            program: binary
            for program, binary in stored.items()
            if binary is not None and not backend.is_quick_build(binary)
        }
        if len(good) == len(stored):
            return good
    fetched = _fetch_binaries(device, compiled, placement) if programs else {}
    if store is not None:
        for program, binary in fetched.items():
            store.put_binary(model.stem, program_parts(program, device), binary)
    return fetched


def _fetch_binaries(
    device: DeviceInfo, compiled: CompiledModel, placement: PlacementOptions
) -> dict[Program, bytes]:
    """Return the binaries that the device's driver provides, if any."""
    executor = open_executor(compiled, lambda plan: _make_player(device, plan), placement)
    try:
        # PoCL compiles a kernel when it first runs; a binary fetched before that would lack it.
        executor.run([blank_array(port.type) for port in compiled.inputs])
        binaries = {one.plan.program: _binary(one) for one in executor.players}
    finally:
        executor.close()
    return {program: binary for program, binary in binaries.items() if binary is not None}


def _make_player(device: DeviceInfo, plan: Plan) -> Player:
    """Open a plan with the best code there is, however long that takes to build."""
    backend = backend_of(device)
    if not backend.quick_builds:
        return make_player(device, plan)
    binary = backend.build_binary(device, plan.program)
    return make_player(device, plan, backend.load_program(device, plan.program, binary))


def model_number(draft: Draft, model: Path) -> int:
    files = files_of(model)
    size = sum(os.path.getsize(path) for path in files)
    return draft.add_model(model.stem, digest_files(files)[2], size)


def prepare_generic(
    draft: Draft,
    model: Path,
    options: CompileOptions,
    kinds: Iterable[str],
    placement: PlacementOptions = ANYWHERE,
) -> list[dict[str, Any]]:
    """Add a plan for each kind of device, which any device of the kind can play. Its kernels are
    built from text on the device.

    A generic plan is a list of launches without optional instructions. It uses fp16 only for
    storage, because not all devices have fp16 arithmetic.
    """
    precision = options.precision.replace("fp16", "mixed")
    options = replace(options, launches="list", precision=precision)
    kinds = sorted({kind if kind in GENERIC else "gpu" for kind in kinds})
    devices = [GENERIC[kind] for kind in kinds]
    return [_add_generic(draft, model, device, options, placement) for device in devices]


def _add_generic(
    draft: Draft,
    model: Path,
    device: DeviceInfo,
    options: CompileOptions,
    placement: PlacementOptions = ANYWHERE,
) -> dict[str, Any]:
    compiled = _compile(model, device, options, placement, {}, Timings())
    draft.add_compiled(model_number(draft, model), device, compiled, options.shapes, generic=True)
    return {
        "model": model.stem,
        "device": device.name,
        "precision": compiled.precision,
        "launches": len(compiled.launches),
    }


def browser_devices() -> tuple[DeviceInfo, ...]:
    """Return the targets for browsers: an unknown GPU, and a software renderer.

    A software renderer compiles kernels for the CPU, which takes long for kernels with barriers.
    Its plan has none, and starts faster.
    """
    gpu = find_target("webgpu:any", BROWSER_UNITS)
    return gpu, find_target("webgpu:software", SOFTWARE_UNITS)


def prepare_web(draft: Draft, model: Path, options: CompileOptions) -> list[dict[str, Any]]:
    """Compile a model for browsers and add it to the draft. All operators must run on the GPU."""
    precision = options.precision.replace("fp16", "mixed")  # few browsers compute in fp16
    options = replace(options, launches="list", precision=precision)
    return [_add_generic(draft, model, device, options, WHOLE) for device in browser_devices()]


def _binary(player: Player) -> bytes | None:
    try:
        return player.binary()
    except ConnectionLost:
        raise
    except FourfoldError as error:
        log.debug("no binary of %s is in the file: %s", player.plan.name, error.why)
        return None

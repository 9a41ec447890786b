"""prepare: models compiled, tuned and built for devices, as one prepared file."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from fourfold.backends import find_target
from fourfold.backends.connections import MACHINES
from fourfold.compiler.convert.files import readable_file
from fourfold.compiler.tune import Level, find_level
from fourfold.config import ALL, Config
from fourfold.device import DeviceInfo
from fourfold.errors import InputError
from fourfold.formats import model_files
from fourfold.options import CompileOptions, PlacementOptions, SessionOptions
from fourfold.plan.container import EXTENSION
from fourfold.runtime.opening import find_store, model_path
from fourfold.store.draft import Draft
from fourfold.store.prepared import Prepared, has_own_name, is_prepared
from fourfold.store.store import Store
from fourfold.support.display import count_text, html_table, shown, size_text, time_text
from fourfold.support.progress import Progress, ProgressOption, followed
from fourfold.tools.preparation import (
    GENERIC,
    TuningSummary,
    model_number,
    prepare_generic,
    prepare_model,
    prepare_web,
    tune_model,
)

PathName = str | os.PathLike[str]
_NOT_OPTIONS = {
    "device": "pass devices=, one name or several",
    "model": "pass the models themselves",
}


@dataclass(frozen=True)
class GenericPlan:
    """A plan that any device of a kind can play; its kernels are built where it is opened."""

    model: str
    device: str  # 'any gpu', 'any cpu', or a WebGPU target
    precision: str
    launches: int

    def to_json(self) -> dict[str, Any]:
        """Return the plan's facts as plain data."""
        return asdict(self)


@dataclass(frozen=True)
class DevicePlan:
    """A plan for one device, with the binaries of its kernels."""

    model: str
    device: str
    precision: str
    launches: int
    binary: int  # bytes of the kernels' binaries; 0 if the driver provides none
    tuning: float  # seconds of tuning
    seconds: float  # seconds of tuning, compiling and building
    search: TuningSummary | None  # result of tuning; None if nothing was tuned
    stages: Mapping[str, float]  # seconds of each stage of compiling

    def to_json(self) -> dict[str, Any]:
        """Return the plan's facts as plain data; the stages are keys of their own."""
        row = {name: value for name, value in vars(self).items() if name != "stages"}
        search = None if self.search is None else asdict(self.search)
        return {**row, "search": search, **self.stages}


@dataclass(frozen=True)
class PreparedFile:
    """A prepared file that was written, and the plans that were added to it."""

    path: str
    size: int  # bytes
    seconds: float
    plans: tuple[DevicePlan, ...]
    generic: tuple[GenericPlan, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {
            "file": self.path,
            "bytes": self.size,
            "seconds": self.seconds,
            "prepared": [plan.to_json() for plan in self.plans],
            "generic": [plan.to_json() for plan in self.generic],
        }

    @shown
    def __str__(self) -> str:
        return "\n".join(self._lines())

    @shown
    def __repr__(self) -> str:
        return f"<PreparedFile: {self._summary()}>"

    def _repr_html_(self) -> str:
        columns = ("model", "prepared for", "precision", ">launches", ">binary", ">seconds")
        rows: list[Sequence[object]] = [
            (
                *(one.model, one.device, one.precision, one.launches),
                *(size_text(one.binary), f"{one.seconds:.1f}"),
            )
            for one in self.plans
        ]
        rows += [
            (one.model, one.device, one.precision, one.launches, "", "") for one in self.generic
        ]
        return html_table(f"Prepared file {self._summary()}", columns, rows)

    def _summary(self) -> str:
        plans = count_text(len(self.plans) + len(self.generic), "plan")
        return f"{self.path}: {size_text(self.size)}, {plans}, {time_text(self.seconds)}"

    def _lines(self) -> Iterator[str]:
        yield self._summary()
        for one in self.plans:
            launches = count_text(one.launches, "launch", "launches")
            binary = f"{size_text(one.binary)} of binaries" if one.binary else "no binaries"
            yield f"  {one.model} for {one.device}: {one.precision}, {launches}, {binary}"
            if one.search is not None:
                yield f"    {one.search}"
        for plan in self.generic:
            launches = count_text(plan.launches, "launch", "launches")
            yield f"  {plan.model} for {plan.device}: {plan.precision}, {launches}, no binaries"


def prepare(
    models: PathName | Sequence[PathName],
    output: PathName,
    *,
    devices: str | int | DeviceInfo | Sequence[str | int | DeviceInfo] | None = None,
    tune: str = "none",
    deadline: float | None = None,
    add: bool = False,
    everywhere: bool = True,
    web: bool = False,
    include_model: bool = False,
    units: int | None = None,
    progress: ProgressOption | None = None,
    **options: Any,
) -> PreparedFile:
    """Compile models for devices and write one prepared file, which `Session` opens at once.

    An error or an interruption leaves an existing file unchanged.

    Args:
        models: Path of a model, or several paths. Framework models are converted first.
        output: The file to write, such as 'app.fourfold'.
        devices: Devices to prepare for: as `Session` takes them, 'cuda:sm_87' for a GPU that is not
            attached, 'adb:SERIAL' or 'ssh:HOST' for a GPU of another machine. The default is the
            device of the settings, or none with `web`.
        tune: How thoroughly to look for faster kernels: 'none', 'rapid', 'normal', 'exhaustive'.
        deadline: Time limit of tuning one model, in seconds.
        add: Keep the plans that an existing file holds.
        everywhere: Add generic plans for any GPU and any CPU, not only for kinds of `devices`.
        web: Add plans for browsers.
        include_model: Add the model file itself, so that trust='data' can open the file on a CPU.
        units: Number of compute units of a GPU that is not attached.
        progress: True for a progress bar, or a function as `Session` takes it.
        **options: The options of `Session`, by name, without `device` and `model`.
    """
    began, stated = time.perf_counter(), _session_options(options)
    path, config = _output_path(output), stated.settings()
    store = find_store(stated.cache, stated.serialization_dir, config)
    with MACHINES.held(), followed(progress, "preparing") as listener:
        what, where = stated.compile_options(config), stated.placement_options(config)
        draft, level = _open_draft(path, add), find_level(tune, deadline)
        work = _Preparation(draft, what, where, level, store, listener or _ignore)
        infos = [find_target(one, units) for one in _device_names(devices, web, config)]
        kinds = [*GENERIC] if everywhere and infos else [info.kind for info in infos]
        for source in _listed(models):
            with readable_file(model_path(source), store, config) as file:
                work.add(Path(file), infos, kinds, web)
                if include_model:
                    draft.add_source(model_number(draft, Path(file)), _only_file(file))
        return work.write(path, began)


@dataclass(frozen=True)
class _Preparation:
    """Options that all models of a file share, and the draft that their plans are added to."""

    draft: Draft
    options: CompileOptions
    placement: PlacementOptions
    level: Level
    store: Store | None
    progress: Progress
    plans: list[DevicePlan] = field(default_factory=list)
    generic: list[GenericPlan] = field(default_factory=list)

    def add(
        self, model: Path, devices: Sequence[DeviceInfo], kinds: Sequence[str], web: bool
    ) -> None:
        """Compile a model for devices, for any device of some kinds, and for browsers."""
        self.plans.extend(self._device_plan(model, device) for device in devices)
        rows = prepare_generic(self.draft, model, self.options, kinds, self.placement)
        rows += prepare_web(self.draft, model, self.options) if web else []
        self.generic.extend(GenericPlan(**row) for row in rows)

    def write(self, path: Path, began: float) -> PreparedFile:
        """Write the file; `began` is when the preparation started."""
        size = self.draft.write(path)
        seconds = time.perf_counter() - began
        return PreparedFile(str(path), size, seconds, tuple(self.plans), tuple(self.generic))

    def _device_plan(self, model: Path, device: DeviceInfo) -> DevicePlan:
        """Tune, compile and build a model for one device."""
        began = time.perf_counter()

        def follow(done: int, total: int, kernel: str, left: float) -> None:
            self.progress(done, total, f"tuning {model.name} {kernel}".strip(), left)

        tuned = tune_model(str(model), device, self.options, self.level, self.store, follow)
        tuning = time.perf_counter() - began
        self.progress(0, 1, f"building {model.name} for {device.name}", 0.0)
        facts = prepare_model(
            self.draft, model, device, self.options, tuned.choices, self.store, self.placement
        )
        return DevicePlan(
            model=model.stem,
            device=device.name,
            precision=self.options.precision,
            launches=facts.pop("launches"),
            binary=facts.pop("binary"),
            tuning=tuning,
            seconds=time.perf_counter() - began,
            search=tuned.summary,
            stages=facts,
        )


def _session_options(options: Mapping[str, Any]) -> SessionOptions:
    """Return the options; the device is 'auto' here, since each plan has a device of its own."""
    for name, fix in _NOT_OPTIONS.items():
        if name in options:
            raise InputError(f"{name!r} is not an option of prepare", "a file can hold many", fix)
    return replace(SessionOptions.of(options), device="auto")


def _output_path(output: PathName) -> Path:
    path = Path(os.fspath(output))
    if not has_own_name(str(path)):
        what, why = (
            f"cannot write '{path}'",
            f"a prepared file is opened by its extension {EXTENSION}",
        )
        raise InputError(what, why, f"name it '{path.with_suffix(EXTENSION)}'")
    return path


def _listed(models: PathName | Sequence[PathName]) -> list[PathName]:
    listed = [models] if isinstance(models, (str, os.PathLike)) else list(models)
    if not listed:
        raise InputError("there is no model to prepare", "models is empty", "pass at least one")
    return listed


def _only_file(model: str) -> bytes:
    """Return the content of a model that is a single file."""
    files = model_files(model)
    if len(files) > 1:
        why = f"it has {len(files)} files, and a prepared file holds models of one file"
        fix = "leave include_model out, or convert the model to one .onnx or .tflite file"
        raise InputError(f"cannot include the model '{model}'", why, fix)
    return Path(files[0]).read_bytes()


def _device_names(
    devices: str | int | DeviceInfo | Sequence[str | int | DeviceInfo] | None,
    web: bool,
    config: Config,
) -> Sequence[str | int | DeviceInfo]:
    if isinstance(devices, (str, int, DeviceInfo)):
        return [devices]
    return devices or ([] if web else [config.device])


def _open_draft(output: Path, add: bool) -> Draft:
    """Return an empty draft, or one with the plans of an existing file."""
    if add and output.exists():
        return Draft.of(Prepared.open(str(output), ALL))
    if output.is_file() and output.stat().st_size and not is_prepared(str(output)):
        what, why = f"{output} exists already", "it is not a prepared file"
        raise InputError(what, why, "choose another name with -o")
    return Draft()


def _ignore(done: int, total: int, stage: str, left: float) -> None:
    """Drop a report of progress."""

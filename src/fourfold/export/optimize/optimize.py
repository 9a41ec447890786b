"""optimize: convert any model to a prepared file, .tflite or .onnx, with a report."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from fourfold import backends
from fourfold.backends.null import NULL_GPU
from fourfold.compiler.tune import Level, find_level
from fourfold.config import Config, Precision
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError, InputError
from fourfold.export.optimize.optimizer import Optimizer, Source, VerifyOption, WrittenGraph
from fourfold.export.optimize.options import TARGETS, OptimizeOptions, QuantizationRequest
from fourfold.export.optimize.output_file import check_output, format_of_output
from fourfold.export.optimize.report import OptimizeReport
from fourfold.export.quantize.running import ProgressCounter
from fourfold.export.quantize.samples import SamplePixels, SamplesOption
from fourfold.export.quantize.write_file import write_atomically
from fourfold.formats import Format, model_files
from fourfold.options import CompileOptions, SessionOptions
from fourfold.store.draft import Draft
from fourfold.store.store import Store, configured_store
from fourfold.support.progress import ProgressOption, followed
from fourfold.tools.preparation import GENERIC, Progress, prepare_generic, prepare_model, tune_model
from fourfold.types import Shape

PathName = str | os.PathLike[str]
ModelOption = PathName | bytes
PREPARED = "fourfold"


def listed_sources(model: ModelOption | Sequence[ModelOption]) -> tuple[Source, ...]:
    """Return the models as a tuple, for one model or several."""
    listed = [model] if isinstance(model, (str, bytes, os.PathLike)) else model
    return tuple(one if isinstance(one, bytes) else os.fspath(one) for one in listed)


@dataclass(frozen=True)
class OptimizationRun:
    """The file to write, its models, and the options."""

    path: Path
    sources: tuple[Source, ...]
    options: OptimizeOptions
    precision: Precision | None
    tune: str
    device: str | int | DeviceInfo | None
    progress: Progress | None

    def run(self, verify: VerifyOption | None) -> OptimizeReport:
        """Write the file and return the report."""
        began = time.perf_counter()
        form = format_of_output(self.path)
        self._check(form)
        works = [self._optimizer(source) for source in self.sources]
        report = self._prepare(works) if form is None else self._write(works[0], form)
        if verify is not None:
            pairs = zip(works, report.models, strict=True)
            models = (replace(one, answers=work.compare(self.path, verify)) for work, one in pairs)
            report = replace(report, models=tuple(models))
        return replace(report, seconds=time.perf_counter() - began)

    def _check(self, form: Format | None) -> None:
        """Check that the options fit the output file."""
        paths = [source for source in self.sources if isinstance(source, str)]
        check_output(self.path, [file for path in paths for file in model_files(path)])
        name, count = self.path.name, len(self.sources)
        if not count:
            raise InputError("there is no model", "no path was passed", "pass at least one")
        if count > 1 and (form is not None or self.options.changes_graph):
            what, why = f"{count} models were passed", "only prepared files hold several"
            if form is None:
                why = "shapes, inputs, outputs and samples belong to one model"
            raise InputError(what, why, "optimize them one by one")
        if form is not None and self.precision is not None:
            what, why = f"precision does not apply to '{name}'", "only prepared files have one"
            raise InputError(what, why, "leave it out, or write a .fourfold file")
        if form is None and not self.options.fold_batch:
            what, why = f"fold_batch=False does not apply to '{name}'", "kernels always fold scales"
            raise InputError(what, why, "leave it out, or write a .tflite or an .onnx file")

    @cached_property
    def _config(self) -> Config:
        return Config.from_environment()

    @cached_property
    def _compile_options(self) -> CompileOptions:
        return SessionOptions(precision=self.precision).compile_options(self._config)

    @cached_property
    def _device(self) -> DeviceInfo:
        """The requested device, or the default one; without any, a generic GPU."""
        if self.device is not None:
            return backends.find_device(self.device)
        try:
            return backends.find_device(self._config.device)
        except DeviceError:
            return NULL_GPU

    def _optimizer(self, source: Source) -> Optimizer:
        steps = ProgressCounter(self.progress)
        return Optimizer(source, self.options, self._compile_options, self._device, steps)

    def _write(self, work: Optimizer, form: Format) -> OptimizeReport:
        written = work.write(form)
        model = work.report(written, prepared=False)
        write_atomically(self.path, written.content)
        return OptimizeReport(str(self.path), form.name, len(written.content), (model,))

    def _prepare(self, works: Sequence[Optimizer]) -> OptimizeReport:
        draft, rows, models = Draft(), [], []
        for work in works:
            written: WrittenGraph | None = None
            if work.options.changes_graph:
                written = work.write_any_format()
            models.append(work.report(written, prepared=True))
            rows += add_prepared(draft, work, written, self._preparation())
        size = draft.write(self.path)
        return OptimizeReport(str(self.path), PREPARED, size, tuple(models), tuple(rows))

    def _preparation(self) -> Preparation:
        config, level = self._config, find_level(self.tune, None)
        store = configured_store(config)
        listener = self.progress or _silent
        return Preparation(self._device, self._compile_options, level, store, listener)


def _silent(done: int, total: int, title: str, left: float) -> None:
    """Ignore progress."""


@dataclass(frozen=True)
class Preparation:
    """The device that plans are made for and tuned on; without one, plans are generic."""

    device: DeviceInfo
    options: CompileOptions
    level: Level
    store: Store | None
    listener: Progress


def add_prepared(
    draft: Draft, work: Optimizer, written: WrittenGraph | None, preparation: Preparation
) -> list[Mapping[str, Any]]:
    """Add a model to the draft of a prepared file; returns one row per plan."""
    if written is None and not isinstance(work.readable, bytes):
        return _prepare(draft, Path(work.readable), work, preparation)
    form, content = work.format, work.readable
    if written is not None:
        form, content = written.form, written.content
    assert isinstance(content, bytes)
    with tempfile.TemporaryDirectory(prefix="fourfold-") as folder:
        path = Path(folder, f"{work.name}{form.extensions[0]}")
        path.write_bytes(content)
        return _prepare(draft, path, work, preparation)


def _prepare(
    draft: Draft, path: Path, work: Optimizer, preparation: Preparation
) -> list[Mapping[str, Any]]:
    rows: list[Mapping[str, Any]] = []
    placement = work.options.placement
    if preparation.device is not NULL_GPU:
        names = {
            "model": path.stem,
            "device": preparation.device.name,
            "precision": preparation.options.precision,
        }
        choices: Mapping[str, str] = {}
        if not placement.only_cpu:
            choices = tune_model(
                str(path),
                preparation.device,
                preparation.options,
                preparation.level,
                preparation.store,
                preparation.listener,
            ).choices
        facts = prepare_model(
            draft,
            path,
            preparation.device,
            preparation.options,
            choices,
            preparation.store,
            placement,
        )
        rows.append({**names, **facts})
    generic = prepare_generic(draft, path, preparation.options, GENERIC, placement)
    return [*rows, *generic]


def optimize(
    model: ModelOption | Sequence[ModelOption],
    output: PathName,
    *,
    targets: Sequence[str] = TARGETS,
    precision: Precision | None = None,
    fold_batch: bool = True,
    shapes: Mapping[str, Shape] | None = None,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    quantize: str | None = None,
    calibrate: SamplesOption | None = None,
    ranges: str | None = None,
    max_loss: float | None = None,
    keep: Collection[str] = (),
    max_changed: float | None = None,
    strict: bool = False,
    pixels: SamplePixels | None = None,
    device: str | int | DeviceInfo | None = None,
    tune: str = "none",
    verify: VerifyOption | None = None,
    progress: ProgressOption | None = None,
) -> OptimizeReport:
    """Simplify a model of any format and write it as .fourfold, .tflite or .onnx.

    Args:
        model: Path or content of a model. A prepared file can take several.
        output: File to write; its extension selects the format.
        targets: Where operators may run. With 'gpu' alone, an operator the GPU cannot run is an
            error.
        precision: Precision of a prepared file: 'fp32', 'mixed' or 'fp16'.
        fold_batch: Fold the scales and shifts of normalizations into weights.
        shapes: Fixed shapes of inputs, by name.
        inputs: Values at which to cut the model, as its new inputs.
        outputs: Values at which to cut the model, as its new outputs.
        quantize: A method of `fourfold.quantize`.
        calibrate: Samples for quantization: a folder, a file of arrays, or an iterable.
        ranges: Range estimator, as in `fourfold.quantize`.
        max_loss: Maximum loss, as in `fourfold.quantize`.
        keep: Layers that stay float, as in `fourfold.quantize`.
        max_changed: Largest share of samples whose answer may change, as in `fourfold.quantize`.
        strict: Raise an error if more answers change, as in `fourfold.quantize`.
        pixels: Scaling of pictures among the samples, as in `fourfold.quantize`.
        device: Device to prepare and tune for; by default the first one.
        tune: Tuning level of a prepared file.
        verify: Compare the file with the original model, on samples, or on random inputs with this
            seed.
        progress: True shows a progress bar; a function is called with (done, total, what, seconds
            left).
    """
    quantization = QuantizationRequest.of(
        quantize, calibrate, ranges, max_loss, keep, max_changed, strict
    )
    options = OptimizeOptions(
        tuple(targets),
        fold_batch,
        dict(shapes or {}),
        tuple(inputs),
        tuple(outputs),
        quantization,
        pixels,
    )
    sources, path = listed_sources(model), Path(os.fspath(output))
    with followed(progress, "optimising") as listener:
        run = OptimizationRun(path, sources, options, precision, tune, device, listener)
        return run.run(verify)

"""OptimizationRun: optimizes models into one file and reports the results."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from fourfold import players
from fourfold.config import Config
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError, InputError
from fourfold.formats import Format, model_files
from fourfold.optimization.optimizer import Optimizer, Source, VerifyOption, WrittenGraph
from fourfold.optimization.options import OptimizeOptions
from fourfold.optimization.output_file import check_output, format_of_output
from fourfold.optimization.prepared_file import Preparation, add_prepared
from fourfold.optimization.report import OptimizeReport
from fourfold.options import CompileOptions
from fourfold.players.null import NULL_GPU
from fourfold.prepare import Progress
from fourfold.quantization.progress import ProgressCounter
from fourfold.quantization.write_file import write_aside
from fourfold.store.draft import Draft
from fourfold.store.store import configured_store
from fourfold.tune import level_named

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
    precision: str | None
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
        return CompileOptions.from_config(self._config, self.precision)

    @cached_property
    def _device(self) -> DeviceInfo:
        """The requested device, or the default one; without any, a generic GPU."""
        if self.device is not None:
            return players.find_device(self.device)
        try:
            return players.find_device(self._config.device)
        except DeviceError:
            return NULL_GPU

    def _optimizer(self, source: Source) -> Optimizer:
        steps = ProgressCounter(self.progress)
        return Optimizer(source, self.options, self._compile_options, self._device, steps)

    def _write(self, work: Optimizer, form: Format) -> OptimizeReport:
        written = work.write(form)
        model = work.report(written, prepared=False)
        write_aside(self.path, written.content)
        return OptimizeReport(str(self.path), form.name, len(written.content), (model,))

    def _prepare(self, works: Sequence[Optimizer]) -> OptimizeReport:
        draft, rows, models = Draft(), [], []
        for work in works:
            written: WrittenGraph | None = None
            if work.options.changes_graph:
                written = work.write_somehow()
            models.append(work.report(written, prepared=True))
            rows += add_prepared(draft, work, written, self._preparation())
        size = draft.write(self.path)
        return OptimizeReport(str(self.path), PREPARED, size, tuple(models), tuple(rows))

    def _preparation(self) -> Preparation:
        config, level = self._config, level_named(self.tune, None)
        store = configured_store(config)
        listener = self.progress or _silent
        return Preparation(self._device, self._compile_options, level, store, listener)


def _silent(done: int, total: int, title: str, left: float) -> None:
    """Ignore progress."""

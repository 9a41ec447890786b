"""optimize: any model in, a prepared file or one for other runtimes out, and a report of it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fourfold import players
from fourfold.config import Config
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError, InputError
from fourfold.formats import Format, model_files
from fourfold.optimization.optimizer import Optimizer, Samples, Source, WrittenGraph
from fourfold.optimization.options import TARGETS, OptimizeOptions
from fourfold.optimization.output_file import check_output, format_of_output, write_whole
from fourfold.optimization.prepared_file import Preparation, add_prepared
from fourfold.optimization.report import OptimizeReport
from fourfold.optimization.steps import Steps
from fourfold.options import CompileOptions
from fourfold.players.null import NULL_GPU
from fourfold.prepare import Progress
from fourfold.store.draft import Draft
from fourfold.store.store import folder_store
from fourfold.tune import level_named
from fourfold.types import Shape

PathName = str | os.PathLike[str]
ModelOption = PathName | bytes
PREPARED = "fourfold"


def optimize(  # noqa: PLR0913 - each is an option that callers know by name
    model: ModelOption | Sequence[ModelOption],
    output: PathName,
    *,
    targets: Sequence[str] = TARGETS,
    precision: str | None = None,
    fold_batch: bool = True,
    shapes: Mapping[str, Shape] | None = None,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    device: str | int | DeviceInfo | None = None,
    tune: str = "none",
    verify: Samples | None = None,
    progress: Progress | None = None,
) -> OptimizeReport:
    """Simplify a model of any format, and write it to `output`: a .fourfold, .tflite or .onnx.

    `targets` are where operators may run: with 'gpu' alone, one that could not is an error.
    `precision` is that of a prepared file. `fold_batch=False` leaves scales and shifts of
    normalisations beside the weights. `shapes` fixes the shapes of inputs by name; `inputs` and
    `outputs` cut the model at values by the names that they have in its file. Several models can
    go into one prepared file. `verify` compares the file with the model as it came: samples as
    `Session.run` takes them, or a function that makes them for inputs that it is given.
    """
    began, path = time.perf_counter(), Path(output)
    form = format_of_output(path)
    sources = [_source(one) for one in _listed(model)]
    asked = OptimizeOptions(
        tuple(targets), fold_batch, dict(shapes or {}), tuple(inputs), tuple(outputs)
    )
    _check(path, form, sources, asked, precision)
    config = Config.from_environment()
    compiled = CompileOptions.from_config(config, precision)
    found, steps = _find_device(device, config), Steps(progress)
    works = [Optimizer(source, asked, compiled, found, steps) for source in sources]
    if form is not None:
        report = _write(works[0], path, form)
    else:
        store = None if config.cache is None else folder_store(config.cache, config.cache_limit)
        report = _prepare(works, path, Preparation(found, compiled, level_named(tune, None), store))
    if verify is not None:
        pairs = zip(works, report.models, strict=True)
        models = (replace(one, answers=work.compare(path, verify)) for work, one in pairs)
        report = replace(report, models=tuple(models))
    return replace(report, seconds=time.perf_counter() - began)


def _listed(model: ModelOption | Sequence[ModelOption]) -> Sequence[ModelOption]:
    return [model] if isinstance(model, (str, bytes, os.PathLike)) else list(model)


def _source(model: ModelOption) -> Source:
    return model if isinstance(model, bytes) else os.fspath(model)


def _check(
    path: Path,
    form: Format | None,
    sources: Sequence[Source],
    asked: OptimizeOptions,
    precision: str | None,
) -> None:
    """What was asked for must fit the file that is written."""
    files = [file for one in sources if isinstance(one, str) for file in model_files(one)]
    check_output(path, files)
    if not sources:
        raise InputError("there is no model", "nothing was passed", "pass at least one")
    if len(sources) > 1 and (form is not None or asked.changes_graph):
        what, why = f"{len(sources)} models were passed", "only prepared files hold several"
        if form is None:
            why = "shapes, inputs and outputs are those of one model"
        raise InputError(what, why, "optimise them one by one")
    if form is not None and precision is not None:
        what, why = f"a precision does not fit '{path.name}'", "kernels of prepared files have one"
        raise InputError(what, why, "leave it out, or write a .fourfold file")
    if form is None and not asked.fold_batch:
        what, why = f"fold_batch=False does not fit '{path.name}'", "kernels take scales in anyway"
        raise InputError(what, why, "leave it out, or write a .tflite or an .onnx file")


def _find_device(device: str | int | DeviceInfo | None, config: Config) -> DeviceInfo:
    """The device that a caller wants, or the usual one; without any, one of no particular make."""
    if device is not None:
        return players.find_device(device)
    try:
        return players.find_device(config.device)
    except DeviceError:
        return NULL_GPU


def _write(work: Optimizer, path: Path, form: Format) -> OptimizeReport:
    written = work.write(form)
    model = work.report(written, prepared=False)
    write_whole(path, written.content)
    return OptimizeReport(str(path), form.name, len(written.content), (model,))


def _prepare(works: Sequence[Optimizer], path: Path, how: Preparation) -> OptimizeReport:
    draft, rows, models = Draft(), [], []
    for work in works:
        written: WrittenGraph | None = None
        if work.options.changes_graph:
            written = work.write_somehow()
        models.append(work.report(written, prepared=True))
        rows += add_prepared(draft, work, written, how)
    size = draft.write(path)
    return OptimizeReport(str(path), PREPARED, size, tuple(models), tuple(rows))

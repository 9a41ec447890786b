"""optimize: any model in, a prepared file or one for other runtimes out, and a report of it."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fourfold import players
from fourfold.config import Config
from fourfold.device import DeviceInfo
from fourfold.errors import DeviceError, InputError
from fourfold.formats import Format, model_files
from fourfold.optimization.optimizer import Optimizer, Source, VerifyOption, WrittenGraph
from fourfold.optimization.options import TARGETS, OptimizeOptions, QuantizationRequest
from fourfold.optimization.output_file import check_output, format_of_output
from fourfold.optimization.prepared_file import Preparation, add_prepared
from fourfold.optimization.report import OptimizeReport
from fourfold.options import CompileOptions
from fourfold.pixels import PixelsOfPicture
from fourfold.players.null import NULL_GPU
from fourfold.prepare import Progress
from fourfold.quantization.progress import ProgressCounter
from fourfold.quantization.samples import SamplesOption
from fourfold.quantization.write_file import write_aside
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
    quantize: str | None = None,
    calibrate: SamplesOption | None = None,
    ranges: str | None = None,
    max_loss: float | None = None,
    keep: Collection[str] = (),
    pixels: PixelsOfPicture | None = None,
    device: str | int | DeviceInfo | None = None,
    tune: str = "none",
    verify: VerifyOption | None = None,
    progress: Progress | None = None,
) -> OptimizeReport:
    """Simplify a model of any format, and write it to `output`: a .fourfold, .tflite or .onnx.

    `targets` are where operators may run: with 'gpu' alone, one that could not is an error.
    `precision` is that of a prepared file. `fold_batch=False` leaves scales and shifts of
    normalisations beside the weights. `shapes` fixes the shapes of inputs by name; `inputs` and
    `outputs` cut the model at values by the names that they have in its file. Several models can
    go into one prepared file.

    `quantize` is a method of `fourfold.quantize`, `calibrate` its samples; `ranges`, `max_loss`,
    `keep` and `pixels` are as there. `verify` compares the file with the model as it came, on
    samples, or on random inputs with a number as their seed.
    """
    began, path = time.perf_counter(), Path(output)
    form = format_of_output(path)
    sources = [_source(one) for one in _listed(model)]
    quantization = QuantizationRequest.of(quantize, calibrate, ranges, max_loss, keep)
    asked = OptimizeOptions(
        targets=tuple(targets),
        fold_batch=fold_batch,
        shapes=dict(shapes or {}),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        quantization=quantization,
        pixels=pixels,
    )
    _check(path, form, sources, asked, precision)
    config = Config.from_environment()
    compiled = CompileOptions.from_config(config, precision)
    found, steps = _find_device(device, config), ProgressCounter(progress)
    works = [Optimizer(source, asked, compiled, found, steps) for source in sources]
    if form is not None:
        report = _write(works[0], path, form)
    else:
        store = None if config.cache is None else folder_store(config.cache, config.cache_limit)
        how = Preparation(found, compiled, level_named(tune, None), store, progress or _silent)
        report = _prepare(works, path, how)
    if verify is not None:
        pairs = zip(works, report.models, strict=True)
        models = (replace(one, answers=work.compare(path, verify)) for work, one in pairs)
        report = replace(report, models=tuple(models))
    return replace(report, seconds=time.perf_counter() - began)


def _silent(done: int, total: int, title: str, left: float) -> None:
    """Nobody listens."""


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
            why = "shapes, inputs, outputs and samples are those of one model"
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
    write_aside(path, written.content)
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

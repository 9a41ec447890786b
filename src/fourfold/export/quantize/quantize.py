"""quantize: convert a float model to a quantized file, with a report."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from fourfold.compiler.convert import make_readable_with_config
from fourfold.config import Config
from fourfold.device import DeviceInfo
from fourfold.errors import InputError
from fourfold.export.quantize.measure import MAX_CHANGED, Score
from fourfold.export.quantize.method import find_method
from fourfold.export.quantize.quantizer import QuantizeOptions, Quantizer, simplify_model
from fourfold.export.quantize.report import QuantizeReport
from fourfold.export.quantize.running import ProgressCounter, find_runner
from fourfold.export.quantize.samples import SamplePixels, SamplesOption, read_samples
from fourfold.export.quantize.write_file import write_atomically
from fourfold.formats import Format, ReadOptions, formats, read_model
from fourfold.support.progress import ProgressOption, followed
from fourfold.types import Shape
from fourfold.vision.describe import describe_model

TFLITE = "tflite"


def quantize(
    model: str | os.PathLike[str] | bytes,
    output: str | os.PathLike[str] | None = None,
    method: str = "int8",
    samples: SamplesOption | None = None,
    *,
    ranges: str = "minmax",
    per_channel: bool = True,
    bias_correction: bool = True,
    max_loss: float | None = None,
    max_changed: float = MAX_CHANGED,
    strict: bool = False,
    keep: Collection[str] = (),
    judge: SamplesOption | None = None,
    score: Score | None = None,
    pixels: SamplePixels | None = None,
    shapes: Mapping[str, Shape] | None = None,
    integer_ports: bool = False,
    device: str | int | DeviceInfo | None = None,
    progress: ProgressOption | None = None,
) -> QuantizeReport:
    """Quantize a float model and write it as .tflite, or as .onnx with QDQ nodes.

    Args:
        model: Path or content of a float model.
        output: File to write; its extension selects the format. None returns the content only.
        method: 'int8', 'int16x8', 'dynamic', 'weights-int4' or 'fp16'.
        samples: Calibration data, required for 'int8' and 'int16x8': a folder of pictures or
            arrays, a file of stacked arrays, or an iterable of what `Session.run` takes.
        ranges: Range estimator: 'minmax', 'moving-average', 'percentile', 'mse' or 'entropy'.
        per_channel: Use one scale per output channel for weights.
        bias_correction: Compensate the mean error of rounded weights in biases.
        max_loss: Maximum loss. Layers that lose most stay float until the output error, or the drop
            of `score`, is within it.
        max_changed: Largest share of samples whose answer may change. Above it, the report has a
            `problem`.
        strict: Raise an error instead, and write no file.
        keep: Layers that stay float, by name of their value, node or operator.
        judge: Samples to measure the loss with; by default `samples`.
        score: Function of (outputs, sample number) that rates a result; higher is better.
        pixels: Scaling of pictures, as a `Pixels`, or as a `vision.StatedPixels` that states a part
            of it; by default as the model takes pictures (see `vision.find_picture_input`).
        shapes: Shapes of inputs that the model leaves open, by name.
        integer_ports: Store the model's inputs and outputs as integers, too.
        device: Device that runs the float model; 'cpu' uses NumPy.
        progress: True shows a progress bar; a function is called with (done, total, what, seconds
            left).
    """
    began, target = time.perf_counter(), None if output is None else Path(output)
    chosen = replace(find_method(method), integer_ports=integer_ports)
    settings: dict[str, Any] = {"max_changed": max_changed, "strict": strict}
    options = QuantizeOptions(
        chosen, ranges, per_channel, bias_correction, max_loss, keep, score, **settings
    )
    form = _format_for(target)
    source = model if isinstance(model, bytes) else os.fspath(model)
    readable = make_readable_with_config(Config.from_environment(), source)
    original = read_model(readable.content, ReadOptions(shapes=dict(shapes or {})))
    read = simplify_model(original)
    needed = samples is not None or chosen.calibrates or max_loss is not None
    title = "" if isinstance(source, bytes) else os.path.basename(source)
    read_all = partial(read_samples, described=describe_model(original, title))
    calibration = read_all(samples, read, pixels) if needed else None
    judged = calibration if judge is None else read_all(judge, read, pixels)
    with followed(progress, "quantising") as listener:
        counter = ProgressCounter(listener)
        work = Quantizer(read, options, form, calibration, judged, find_runner(device), counter)
        report = replace(work.run(), path=target, seconds=time.perf_counter() - began)
    if target is not None:
        write_atomically(target, report.content)
    return report


def _format_for(path: Path | None) -> Format:
    """Return the format for the extension of a file; TFLite without a file."""
    if path is None:
        return formats()[TFLITE]
    writable = [form for form in formats().values() if form.writer is not None]
    matching = [form for form in writable if path.suffix.lower() in form.extensions]
    if not matching:
        names = ", ".join(ending for form in writable for ending in form.extensions)
        what, why = f"cannot write '{path.name}'", "its extension belongs to no writable format"
        raise InputError(what, why, f"use one of the extensions {names}")
    if not path.absolute().parent.is_dir():
        why = f"there is no folder '{path.parent}'"
        raise InputError(f"cannot write '{path}'", why, "create the folder first")
    return matching[0]

"""quantize: a float model in, a file with integers or halves in it out, and a report of both."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from fourfold.config import Config
from fourfold.convert import make_readable_by
from fourfold.device import DeviceInfo
from fourfold.errors import InputError
from fourfold.formats import Format, ReadOptions, formats, read_model
from fourfold.pixels import PixelsOfPicture
from fourfold.progress import ProgressOption, followed
from fourfold.quantization.measure import Score
from fourfold.quantization.method import method_named
from fourfold.quantization.progress import ProgressCounter
from fourfold.quantization.quantizer import QuantizeOptions, Quantizer
from fourfold.quantization.report import QuantizeReport
from fourfold.quantization.running import find_runner
from fourfold.quantization.samples import SamplesOption, read_samples
from fourfold.quantization.simplify import simplify_model
from fourfold.quantization.write_file import write_aside
from fourfold.types import Shape

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
    keep: Collection[str] = (),
    judge: SamplesOption | None = None,
    score: Score | None = None,
    pixels: PixelsOfPicture | None = None,
    shapes: Mapping[str, Shape] | None = None,
    integer_ports: bool = False,
    device: str | int | DeviceInfo | None = None,
    progress: ProgressOption | None = None,
) -> QuantizeReport:
    """Quantise a float model, and write it to `output`: a .tflite, or an .onnx with QDQ.

    `method` is 'int8', 'int16x8', 'dynamic', 'weights-int4' or 'fp16'. The first two need
    `samples`: a folder of pictures or arrays, a file of stacked arrays, or an iterable of what
    `Session.run` takes. `ranges` is 'minmax', 'moving-average', 'percentile', 'mse' or 'entropy'.
    With `max_loss`, the layers that lose the most stay float until the error of the outputs is no
    more; with `score(outputs, number)`, until that falls by no more. `keep` names layers that stay
    float in any case. The loss is measured on `judge`, or else on the samples. `progress=True`
    shows a bar in a terminal or a notebook; a function is called with (done, total, what, seconds
    left).
    """
    began, target = time.perf_counter(), None if output is None else Path(output)
    how = replace(method_named(method), integer_ports=integer_ports)
    options = QuantizeOptions(how, ranges, per_channel, bias_correction, max_loss, keep, score)
    form = _format_for(target)
    source = model if isinstance(model, bytes) else os.fspath(model)
    readable = make_readable_by(Config.from_environment(), source)
    read = simplify_model(read_model(readable.content, ReadOptions(shapes=dict(shapes or {}))))
    needed = samples is not None or how.calibrates or max_loss is not None
    given = read_samples(samples, read, pixels) if needed else None
    judged = given if judge is None else read_samples(judge, read, pixels)
    with followed(progress, "quantising") as listener:
        counter = ProgressCounter(listener)
        work = Quantizer(read, options, form, given, judged, find_runner(device), counter)
        report = replace(work.run(), path=target, seconds=time.perf_counter() - began)
    if target is not None:
        write_aside(target, report.content)
    return report


def _format_for(path: Path | None) -> Format:
    """The format that a file of this name has; TFLite without a name."""
    if path is None:
        return formats()[TFLITE]
    known = [form for form in formats().values() if form.writer is not None]
    found = [form for form in known if path.suffix.lower() in form.extensions]
    if not found:
        names = ", ".join(ending for form in known for ending in form.extensions)
        what, why = f"cannot write '{path.name}'", "its extension names no format that is written"
        raise InputError(what, why, f"end it in one of {names}")
    if not path.absolute().parent.is_dir():
        why = f"there is no folder '{path.parent}'"
        raise InputError(f"cannot write '{path}'", why, "make the folder first")
    return found[0]

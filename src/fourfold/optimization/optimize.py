"""optimize: any model in, a prepared file or one for other runtimes out, and a report of it."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from fourfold.config import Precision
from fourfold.device import DeviceInfo
from fourfold.optimization.optimizer import VerifyOption
from fourfold.optimization.options import TARGETS, OptimizeOptions, QuantizationRequest
from fourfold.optimization.report import OptimizeReport
from fourfold.optimization.run import ModelOption, OptimizationRun, PathName, listed_sources
from fourfold.pixels import PixelsOfPicture
from fourfold.progress import ProgressOption, followed
from fourfold.quantization.samples import SamplesOption
from fourfold.types import Shape


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
    pixels: PixelsOfPicture | None = None,
    device: str | int | DeviceInfo | None = None,
    tune: str = "none",
    verify: VerifyOption | None = None,
    progress: ProgressOption | None = None,
) -> OptimizeReport:
    """Simplify a model of any format, and write it to `output`: a .fourfold, .tflite or .onnx.

    `targets` are where operators may run: with 'gpu' alone, one that could not is an error.
    `precision` and `tune` are those of a prepared file. `fold_batch=False` leaves scales and shifts
    of normalisations beside the weights. `shapes` fixes the shapes of inputs by name; `inputs` and
    `outputs` cut the model at values by the names that they have in its file. Several models can
    go into one prepared file.

    `quantize` is a method of `fourfold.quantize`, `calibrate` its samples; `ranges`, `max_loss`,
    `keep` and `pixels` are as there. `verify` compares the file with the model as it came, on
    samples, or on random inputs with a number as their seed. `progress=True` shows a bar in a
    terminal or a notebook; a function is called with (done, total, what, seconds left).
    """
    quantization = QuantizationRequest.of(quantize, calibrate, ranges, max_loss, keep)
    cuts = (tuple(inputs), tuple(outputs))
    asked = OptimizeOptions(
        tuple(targets), fold_batch, dict(shapes or {}), *cuts, quantization, pixels
    )
    sources, path = listed_sources(model), Path(os.fspath(output))
    with followed(progress, "optimising") as listener:
        run = OptimizationRun(path, sources, asked, precision, tune, device, listener)
        return run.run(verify)

"""optimize: convert any model to a prepared file, .tflite or .onnx, with a report."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from fourfold.device import DeviceInfo
from fourfold.optimization.optimizer import VerifyOption
from fourfold.optimization.options import TARGETS, OptimizeOptions, QuantizationRequest
from fourfold.optimization.report import OptimizeReport
from fourfold.optimization.run import ModelOption, OptimizationRun, PathName, listed_sources
from fourfold.pixels import PixelsOfPicture
from fourfold.progress import ProgressOption, followed
from fourfold.quantization.samples import SamplesOption
from fourfold.types import Shape


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
        pixels: Scaling of pictures among the samples.
        device: Device to prepare and tune for; by default the first one.
        tune: Tuning level of a prepared file.
        verify: Compare the file with the original model, on samples, or on random inputs with this
            seed.
        progress: True shows a progress bar; a function is called with (done, total, what, seconds
            left).
    """
    quantization = QuantizationRequest.of(quantize, calibrate, ranges, max_loss, keep)
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

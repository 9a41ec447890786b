"""Compares all quantized models of a folder with LiteRT's optimized and reference kernels.

These two disagree with each other, which sets the limit: the mean error to the nearer one may be
1.5 times their mean difference, or 0.4 % of the range of the output, whichever is larger. Vision
models get photographs, and must also give the answer of one of the two: top class, mask, key points
or boxes. Other models get seeded random numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import answers
import click
import numpy as np
from PIL import Image
from setting import SHARED, replace_section

import fourfold
from fourfold.runtime.random_inputs import random_inputs

COMMAND = "python benchmarks/quantized.py --write docs/coverage.md"
HEADING = "## Quantised models"
PHOTOGRAPHS = ("burger.jpg", "cat.bmp", "cats_and_dogs.jpg", "grace_hopper.bmp", "squat.bmp")
DRAWS = 5
SHARE_OF_RANGE, SHARE_OF_DIFFERENCE = 0.004, 1.5
# Kind of answer of each vision model; the others return plain numbers.
ANSWERS = {
    "mobilenet_v1_0.25_128_quant": "top class",
    "mobilenet_v1_1.0_224_quant_embedding_extractor": "embedding",
    "mobilenet_v2_1.0_224_quant": "top class",
    "tf2_mobilenet_v2_1.0_224_ptq": "top class",
    "deeplab_v3_dm05_513_uint8": "mask",
    "ssd_mobilenet_v1_uint8": "boxes",
    "posenet_mobilenet_075_uint8": "heat maps",
    "movenet_lightning_int8": "key points",
    "edsr_x2_int8": "picture",
    "resnet8_cifar_int8": "top class",
    "vww_96_int8": "top class",
    "mobilenetv3_multilabel": "top class",
    "mcunetv2_large": "top class",
}
NUMBERS = (
    *("ad01_int8", "ds_cnn_quantized", "kws_ref_model", "str_ww_ref_model"),
    *("okay_nabu", "lyragan"),  # stateful: all engines run in step
)
# Float activations with integer weights: LiteRT rounds activations at run time.
WEIGHTS = (
    "dtln_1_dynamic",
    "emotion_model_quantized",
    "fastestdet_dynamic",
    "kws_ref_model_float32",
    "mobilenet_v2_035_96_embedder_with_metadata",
)
# Its convolutions over 540 x 960 pixels take minutes in LiteRT's reference kernels.
SMALLER = {"edsr_x2_int8": (1, 96, 128, 3)}
FAST, PLAIN = "BUILTIN", "BUILTIN_REF"
# The reference kernels lack one of its operators, so kernels without XNNPACK are used.
PLAINER = {"edsr_x2_int8": "BUILTIN_WITHOUT_DEFAULT_DELEGATES"}

Arrays = list[np.ndarray]


@dataclass(frozen=True)
class Row:
    """Result of one model: errors in quantization steps (absolute for floats), and answers."""

    model: str
    fed: str
    error: float
    difference: float
    allowed: float
    answer: str
    refused: str = ""

    @property
    def verdict(self) -> str:
        if self.refused:
            return f"not run: {self.refused}"
        good = self.error <= self.allowed and "differs" not in self.answer
        return "agrees" if good else "**differs**"

    def __str__(self) -> str:
        numbers = f"{self.error:.4g} | {self.difference:.4g} | {self.allowed:.4g}"
        numbers = "- | - | -" if self.refused else numbers
        return f"| {self.model} | {self.fed} | {numbers} | {self.answer} | {self.verdict} |"


@dataclass
class Rival:
    """LiteRT with one set of kernels."""

    path: Path
    kernels: str
    shape: tuple[int, ...] | None

    def __post_init__(self) -> None:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        resolver = getattr(OpResolverType, self.kernels)
        self.interpreter = Interpreter(
            str(self.path), experimental_op_resolver_type=resolver, num_threads=2
        )
        self.places = [one["index"] for one in self.interpreter.get_input_details()]
        if self.shape is not None:
            self.interpreter.resize_tensor_input(self.places[0], self.shape)
        self.interpreter.allocate_tensors()

    def run(self, inputs: Arrays) -> Arrays:
        for place, array in zip(self.places, inputs, strict=True):
            self.interpreter.set_tensor(place, array)
        self.interpreter.invoke()
        details = self.interpreter.get_output_details()
        return [self.interpreter.get_tensor(one["index"]) for one in details]


def picture(path: Path, info: fourfold.TensorInfo) -> np.ndarray:
    """Return a photograph as an input: uint8, shifted to int8, or float from -1 to 1."""
    with Image.open(path) as image:
        size = (info.shape[2], info.shape[1])
        pixels = np.asarray(image.convert("RGB").resize(size, Image.Resampling.BILINEAR))[None]
    if info.dtype == np.uint8:
        return pixels
    if info.dtype == np.int8:
        return (pixels.astype(np.int16) - 128).astype(np.int8)
    return (pixels / 127.5 - 1).astype(info.dtype)


def feeds(session: fourfold.Session, name: str, shared: Path) -> list[Arrays]:
    photographs = [shared / "inputs" / one for one in PHOTOGRAPHS]
    if name in ANSWERS and all(path.is_file() for path in photographs):
        return [[picture(path, session.inputs[0])] for path in photographs]
    return [list(random_inputs(session.inputs, seed).values()) for seed in range(DRAWS)]


def mean_error(ours: Sequence[Arrays], theirs: Sequence[Arrays]) -> list[float]:
    """Return the mean difference of each output; for indices the share that differs."""
    errors = []
    for output in range(len(ours[0])):
        pairs = [(a[output], b[output]) for a, b in zip(ours, theirs, strict=True)]
        errors.append(float(np.mean([_distance(a, b) for a, b in pairs])))
    return errors


def _distance(ours: np.ndarray, theirs: np.ndarray) -> float:
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return float("inf")
    if ours.dtype.itemsize >= 4 and ours.dtype.kind in "iu":
        return float(np.mean(ours != theirs))
    return float(np.abs(ours.astype(np.float64) - theirs.astype(np.float64)).mean())


def output_ranges(results: Sequence[Arrays]) -> list[float]:
    ranges = []
    for output, first in enumerate(results[0]):
        indices = first.dtype.itemsize >= 4 and first.dtype.kind in "iu"
        values = np.concatenate([one[output].reshape(-1).astype(np.float64) for one in results])
        ranges.append(1.0 if indices else float(np.ptp(values)))
    return ranges


def compare(path: Path, shared: Path, device: str) -> Row:
    name, shape = path.stem, SMALLER.get(path.stem)
    rivals = [Rival(path, FAST, shape), Rival(path, PLAINER.get(name, PLAIN), shape)]
    first = rivals[0].interpreter.get_input_details()[0]["name"]
    shapes = {} if shape is None else {first: shape}
    try:
        session, apart = open_session(path, device, shapes)
    except fourfold.UnsupportedError as error:
        ops = sorted({one.op for one in error.refusals})
        return Row(name, "-", 0, 0, 0, "-", ", ".join(ops))
    with session:
        arrays = feeds(session, name, shared)
        ours = [list(session.run(one).values()) for one in arrays]
    fast, plain = ([rival.run(one) for one in arrays] for rival in rivals)
    fed = f"{len(arrays)} {'photographs' if name in ANSWERS else 'random inputs'}"
    verdict = answers.compare(ANSWERS.get(name, ""), ours, fast, plain)
    mark = " w" if name in WEIGHTS else ""
    return Row(name + mark + apart, fed, *worst(ours, fast, plain), verdict)


def open_session(
    path: Path, device: str, shapes: Mapping[str, tuple[int, ...]]
) -> tuple[fourfold.Session, str]:
    """Open a model on the device; also return which operators run on the CPU."""
    words: dict[str, Any] = {"precision": "fp32", "shapes": shapes, "placement": "gpu"}
    try:
        return fourfold.Session(path, device, strict=True, **words), ""
    except fourfold.UnsupportedError as error:
        ops = ", ".join(sorted({one.op for one in error.refusals}))
        return fourfold.Session(path, device, **words), f" ({ops} on the CPU)"


def worst(
    ours: Sequence[Arrays], fast: Sequence[Arrays], plain: Sequence[Arrays]
) -> tuple[float, float, float]:
    """Return error, LiteRT's own difference and the limit of the worst output."""
    near = [min(pair) for pair in zip(mean_error(ours, fast), mean_error(ours, plain), strict=True)]
    own, ranges = mean_error(fast, plain), output_ranges(fast)
    rows = []
    for error, difference, reach in zip(near, own, ranges, strict=True):
        allowed = max(SHARE_OF_DIFFERENCE * difference, SHARE_OF_RANGE * reach)
        rows.append((error, difference, allowed))
    return max(rows, key=lambda row: row[0] / max(row[2], 1e-12))


def report(rows: Sequence[Row], device: str) -> str:
    lines = [
        HEADING,
        "",
        f"Made by `{COMMAND}` on {device}, in fp32.",
        "",
        "Mean errors in steps of the output (as they are where outputs are floats; the share of",
        "elements where they are indices), to the nearer of LiteRT's optimised and reference",
        "kernels; then the mean difference of these two, and the yardstick: 1.5 times that",
        "difference, or 0.4 % of the range of the output. Of several outputs the worst is shown.",
        "Marked w: only the weights are integers. LiteRT's two sets of kernels round the values,",
        "each in its own way, before they multiply them; fourfold does not.",
        "",
        "| model | fed with | our error | LiteRT's own | allowed | answers | verdict |",
        "|---|---|---|---|---|---|---|",
        *(str(row) for row in rows),
    ]
    return "\n".join(lines) + "\n"


@click.command(help=__doc__)
@click.option("--shared", type=click.Path(path_type=Path), default=SHARED)
@click.option("--device", default="auto", help="The device that fourfold runs on.")
@click.option(
    "--write", type=click.Path(path_type=Path), help="Markdown page whose section is replaced."
)
@click.argument("models", nargs=-1)
def main(shared: Path, device: str, write: Path | None, models: Sequence[str]) -> None:
    names = models or (*ANSWERS, *NUMBERS, *WEIGHTS)
    paths = {name: shared / "models" / "tflite" / f"{name}.tflite" for name in names}
    missing: Mapping[str, Path] = {n: path for n, path in paths.items() if not path.is_file()}
    if missing:
        raise click.ClickException(f"{next(iter(missing.values()))} was not found")
    rows = []
    for path in paths.values():
        rows.append(compare(path, shared, device))
        click.echo(str(rows[-1]))
    if write is not None:
        title = next(one.name for one in fourfold.devices() if device in ("auto", one.name))
        replace_section(write, HEADING, report(rows, title))


if __name__ == "__main__":
    main()

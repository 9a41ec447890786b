"""Run a model once and show its results.

Inputs are arrays (.npy), pictures, raw camera frames (.yuv, with --pixels and --frame-size) or text
files with one text a line. Inputs without a file are random. A picture is resized to the input, and
scaled as the model's metadata say, as is usual for models of its kind, or to 0..1.

Results are shown as classes, boxes, masks or key points if the model's metadata or the shapes of
its outputs say so. --draw draws them on the picture.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from fourfold.cli._answers import (
    AnswerOptions,
    answer_options,
    check_answer,
    draw_answer,
    show_answer,
    why_not_drawn,
)
from fourfold.cli._described import with_own_outputs
from fourfold.cli._images import PictureOptions, picture_options
from fourfold.cli._input_names import check_input_names
from fourfold.cli._inputs import GatheredInputs, gather_inputs
from fourfold.cli._options import (
    ModelArguments,
    examples,
    input_option,
    json_option,
    model_options,
    placement_options,
    postprocess_options,
    seed_option,
)
from fourfold.cli._outputs import summarise
from fourfold.cli._show import duration, number_text, shape_text, show_json, show_table
from fourfold.cli._trace import trace_option, traced
from fourfold.errors import InputError
from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    from fourfold import vision as answers
    from fourfold.vision import Answer, shapes
    from fourfold.vision.meaning import Described
else:
    answers, shapes = lazy_import("fourfold.vision"), lazy_import("fourfold.vision.shapes")

EXAMPLES = examples(
    "fourfold run model.tflite --input photo.jpg --draw answer.png",
    "fourfold run model.onnx --input x=x.npy --output results --json",
)


@click.command(help=__doc__, epilog=EXAMPLES)
@model_options
@placement_options
@input_option
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to save outputs to, as .npy files.",
)
@answer_options
@picture_options
@postprocess_options
@seed_option
@trace_option
@json_option
def command(
    arguments: ModelArguments,
    files: tuple[str, ...],
    output: Path | None,
    shown: AnswerOptions,
    pictures: PictureOptions,
    seed: int,
    as_json: bool,
) -> None:
    shown.check(files)
    check_input_names(arguments, files)
    arguments = arguments.with_options(pixels=pictures.session_pixels(arguments))
    began = time.perf_counter()
    with arguments.open() as session:
        start = time.perf_counter() - began
        model = shapes.as_opened(session)
        check_answer(model, shown)
        taking: Described = model
        if arguments.options.postprocess is not None:
            taking = with_own_outputs(arguments, model.inputs, files)
        inputs = gather_inputs(taking, files, pictures, seed)
        with traced(arguments, session, opening=True):
            began = time.perf_counter()
            results = session.run(inputs.arrays)
            seconds = time.perf_counter() - began
        device, precision = str(session.device), session.precision
        stages = dict(session.timings)
        answer = _answer(model, results, inputs, shown)
        outputs = summarise(results, session.outputs, answer.unknown, shown.top)
    saved = {} if output is None else save(output, results)
    saved |= _draw(answer, inputs.photograph, shown.drawing)
    report = {
        "model": arguments.model,
        "device": device,
        "precision": precision,
        "seconds": {"start": start, "stages": stages, "run": seconds},
        "preprocessing": inputs.preprocessing,
        "outputs": outputs,
        "answer": answer.to_json(),
        "files": {name: str(path) for name, path in saved.items()},
    }
    show_json(report) if as_json else _show(report, answer)


def _draw(answer: Answer, photograph: Path | None, path: Path | None) -> dict[str, Path]:
    """Draw the results if that was asked for, and return the file. Results that turn out not to be
    drawable are still shown.
    """
    if path is None or photograph is None:
        return {}
    reason = why_not_drawn(answer.kinds)
    if reason:
        click.echo(f"nothing was drawn: {reason}", err=True)
        return {}
    draw_answer(answer, photograph, path)
    return {"the drawing": path}


def _answer(
    model: Described,
    results: Mapping[str, np.ndarray],
    inputs: GatheredInputs,
    shown: AnswerOptions,
) -> Answer:
    """Decode the results; without --labels if these turn out not to fit."""
    options: dict[str, Any] = {"top": shown.top, "score": shown.score}
    options |= {"fit": inputs.fit, "frame": inputs.frame}
    try:
        return answers.read_answer(model, results, shown.labels, **options)
    except InputError as error:
        if not shown.labels:
            raise
        click.echo(f"the labels were not used: {error.what}, {error.why}", err=True)
        return answers.read_answer(model, results, **options)


def _show(report: Mapping[str, Any], answer: Answer) -> None:
    rows = [
        (
            row["name"],
            shape_text(row["shape"]),
            row["dtype"],
            *(number_text(row[key]) for key in ("min", "max", "mean")),
        )
        for row in report["outputs"]
    ]
    title = f"{Path(report['model']).name} on {report['device']}, {report['precision']}"
    show_table(title, ("output", ">shape", "type", ">min", ">max", ">mean"), rows)
    show_answer(answer)
    for row in report["outputs"]:
        _show_contents(row)
    seconds = report["seconds"]
    stages = ", ".join(f"{name} {duration(t)}" for name, t in seconds["stages"].items())
    click.echo(f"start {duration(seconds['start'])}{f' ({stages})' if stages else ''}")
    click.echo(f"first run {duration(seconds['run'])}")
    for name, path in report["files"].items():
        click.echo(f"saved {name} as {path}")


def _show_contents(row: Mapping[str, Any]) -> None:
    """Print the largest numbers of an output whose meaning is unknown, or the first texts."""
    if "largest" in row:
        cells = [(one["place"], number_text(one["number"])) for one in row["largest"]]
        show_table(f"largest of {row['name']}", (">index", ">value"), cells)
    if "values" in row:
        show_table(f"first of {row['name']}", ("text",), ((text,) for text in row["values"]))


def save(folder: Path, arrays: Mapping[str, np.ndarray]) -> dict[str, Path]:
    """Save each array to a file of its name, and return the paths. Files are written atomically."""
    saved: dict[str, Path] = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, array in arrays.items():
            stem = re.sub(r"[^\w.-]+", "_", name).lstrip(".") or "output"
            stems = {path.stem for path in saved.values()}
            choices = (stem, *(f"{stem}_{place}" for place in range(2, len(arrays) + 2)))
            saved[name] = folder / f"{next(item for item in choices if item not in stems)}.npy"
            _write(saved[name], array)
    except OSError as error:
        raise InputError(
            f"the outputs cannot be written to {folder}",
            str(error),
            "choose a folder that can be written to, with enough free space",
        ) from error
    return saved


def _write(path: Path, array: np.ndarray) -> None:
    descriptor, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=".npy")
    try:
        with os.fdopen(descriptor, "wb") as file:
            plain = array.astype(bytes) if array.dtype == object else array
            np.save(file, plain, allow_pickle=False)
        Path(aside).chmod(0o644)
        Path(aside).replace(path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            Path(aside).unlink()

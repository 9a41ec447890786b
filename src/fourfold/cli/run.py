"""Run a model and show its results.

INPUTS are pictures, sounds (.wav), arrays (.npy), raw camera frames (.yuv, with --pixels and
--frame-size), text files with one text a line, or folders of these. The model runs once for each
file. Without a file, the input is random. A picture is resized to the input, and scaled as the
model's metadata say, as is usual for models of its kind, or to 0..1. A sound is mixed to mono,
resampled, and cut or padded to the input.

Results are shown as classes, boxes, masks or key points if the model's metadata or the shapes of
its outputs say so. --draw draws them on the picture.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fourfold.cli import INTERRUPTED
from fourfold.cli._answers import (
    AnswerOptions,
    answer_options,
    check_answer,
    show_answer,
    summarise_answer,
)
from fourfold.cli._described import with_own_outputs
from fourfold.cli._images import PictureOptions, picture_options
from fourfold.cli._input_files import InputFiles, list_input_files
from fourfold.cli._input_names import check_input_names
from fourfold.cli._options import (
    ModelArguments,
    examples,
    input_option,
    inputs_argument,
    json_option,
    model_options,
    placement_options,
    postprocess_options,
    seed_option,
)
from fourfold.cli._runs import Outcome, RunOptions, Runs, failure_code
from fourfold.cli._show import duration, echo, number_text, shape_text, show_json, show_table
from fourfold.cli._trace import trace_option, traced
from fourfold.processing.sound_files import MAX_RATE_HZ, MIN_RATE_HZ
from fourfold.support.lazy import lazy_import
from fourfold.support.progress import late_progress

if TYPE_CHECKING:
    from fourfold.vision import Answer, shapes
    from fourfold.vision.meaning import Described
else:
    shapes = lazy_import("fourfold.vision.shapes")

RATE_HELP = "Sample rate of the model in Hz, for sounds.  [default: as the model says, or 16000]"
rate_option = click.option(
    "--rate", type=click.IntRange(MIN_RATE_HZ, MAX_RATE_HZ), metavar="HZ", help=RATE_HELP
)
EXAMPLES = examples(
    "fourfold run model.tflite photo.jpg --draw answer.png",
    "fourfold run model.tflite photos/ --json",
    "fourfold run model.onnx --input x=x.npy --input y=y.npy --output results",
)


@click.command(help=__doc__, epilog=EXAMPLES)
@model_options
@inputs_argument
@placement_options
@input_option
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to save outputs to, as .npy files; in a subfolder for each of several inputs.",
)
@answer_options
@picture_options
@postprocess_options
@rate_option
@seed_option
@trace_option
@json_option
def command(
    arguments: ModelArguments,
    *,
    paths: tuple[str, ...],
    files: tuple[str, ...],
    output: Path | None,
    shown: AnswerOptions,
    pictures: PictureOptions,
    rate: int | None,
    seed: int,
    as_json: bool,
) -> None:
    inputs = list_input_files(paths)
    named = (*files, *map(str, inputs.paths))
    shown.check(named, inputs.is_list)
    check_input_names(arguments, files, next(iter(inputs.paths), None))
    arguments = arguments.with_options(pixels=pictures.session_pixels(arguments))
    began = time.perf_counter()
    with late_progress(f"opening {arguments.title}:") as report_progress:
        session = arguments.open(progress=report_progress)
    with session:
        report: dict[str, Any] = {
            "model": arguments.model,
            "device": str(session.device),
            "precision": session.precision,
            "seconds": {"start": time.perf_counter() - began, "stages": dict(session.timings)},
        }
        model = shapes.as_opened(session)
        check_answer(model, shown)
        taking: Described = model
        if arguments.options.postprocess is not None:
            taking = with_own_outputs(arguments, model.inputs, named)
        options = RunOptions(files, pictures, shown, output, seed, rate)
        runs = Runs(session, model, taking, options)
        with traced(arguments, session, opening=True):
            if not inputs.is_list:
                outcomes = [runs.run(inputs.only)]
            else:
                outcomes, is_complete = _run_all(runs, inputs)
    if inputs.is_list:
        _show_all(report, outcomes, as_json, is_complete)
        code = failure_code(outcomes) if is_complete else INTERRUPTED
        click.get_current_context().exit(code)
    report["seconds"]["run"] = outcomes[0].seconds
    report |= outcomes[0].data
    show_json(report) if as_json else _show(report, outcomes[0].answer)


def _run_all(runs: Runs, inputs: InputFiles) -> tuple[list[Outcome], bool]:
    """Run on all files, or until Ctrl-C. Return the outcomes and whether they are complete."""
    outcomes: list[Outcome] = []
    try:
        with late_progress("running") as report:
            runs.run_all(inputs.paths, outcomes, report)
    except KeyboardInterrupt:
        done, count = len(outcomes), len(inputs.paths)
        echo(f"interrupted after {done} of {count} files; these are their results", err=True)
        return outcomes, False
    return outcomes, True


def _show_all(
    report: Mapping[str, Any], outcomes: Sequence[Outcome], as_json: bool, is_complete: bool
) -> None:
    """Print one row per file, or all results as JSON."""
    if as_json:
        results = [one.to_json() for one in outcomes]
        show_json({**report, "is_complete": is_complete, "results": results})
        return
    title = f"{Path(report['model']).name} on {report['device']}, {report['precision']}"
    show_table(title, ("file", "result", ">run"), map(_row, outcomes))
    answer = next((one.answer for one in outcomes if one.answer is not None), None)
    if answer is not None and answer.known:
        echo(f"{answer.family}, identified by {answer.told_by}")
    notes = (note for one in outcomes if one.answer is not None for note in one.answer.notes)
    for note in dict.fromkeys(notes):
        echo(note)
    _show_start(report["seconds"])
    saved = [path for one in outcomes for path in one.data.get("files", {}).values()]
    if saved:
        echo(f"saved {len(saved)} files, the first as {saved[0]}")


def _row(outcome: Outcome) -> tuple[str, str, str]:
    if outcome.answer is None:
        return str(outcome.path), f"failed: {outcome.error.what}" if outcome.error else "", "-"
    summary = summarise_answer(outcome.answer) or ", ".join(
        f"{row['name']} {shape_text(row['shape'])}: {number_text(row['min'])} to "
        f"{number_text(row['max'])}"
        for row in outcome.data["outputs"]
    )
    return str(outcome.path), summary, duration(outcome.seconds)


def _show(report: Mapping[str, Any], answer: Answer | None) -> None:
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
    if answer is not None:
        show_answer(answer)
    for row in report["outputs"]:
        _show_contents(row)
    _show_start(report["seconds"])
    echo(f"first run {duration(report['seconds']['run'])}")
    for name, path in report["files"].items():
        echo(f"saved {name} as {path}")


def _show_start(seconds: Mapping[str, Any]) -> None:
    stages = ", ".join(f"{name} {duration(t)}" for name, t in seconds["stages"].items())
    echo(f"start {duration(seconds['start'])}{f' ({stages})' if stages else ''}")


def _show_contents(row: Mapping[str, Any]) -> None:
    """Print the largest numbers of an output whose meaning is unknown, or the first texts."""
    if "largest" in row:
        cells = [(one["place"], number_text(one["number"])) for one in row["largest"]]
        show_table(f"largest of {row['name']}", (">index", ">value"), cells)
    if "values" in row:
        show_table(f"first of {row['name']}", ("text",), ((text,) for text in row["values"]))

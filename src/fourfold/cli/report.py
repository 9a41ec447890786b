"""Write an HTML report of a run: what ran where, why, and how fast.

The page needs no network. It shows the graph, a timeline, the kernels compared with the limits of
the device, memory, the stages of opening, advice, and with --verify the accuracy of each layer.
--json saves the data; --compare shows the data of an earlier run next to this one.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from fourfold.cli._described import with_own_outputs
from fourfold.cli._images import PictureOptions, picture_options
from fourfold.cli._inputs import gather_inputs
from fourfold.cli._options import (
    Command,
    ModelArguments,
    examples,
    input_option,
    model_options,
    placement_options,
    postprocess_options,
    seed_option,
)
from fourfold.cli._show import byte_count, duration, progress
from fourfold.errors import InputError
from fourfold.tools.report.run_report.record import RunRecord
from fourfold.tools.report.run_report.record_file import read_record, write_record
from fourfold.tools.report.run_report.report import RunReport
from fourfold.vision import shapes

if TYPE_CHECKING:
    from fourfold.vision.meaning import Described

FILE = click.Path(dir_okay=False, path_type=Path)
EXAMPLES = examples(
    "fourfold report model.tflite -o report.html --verify",
    "fourfold report model.tflite --json new.json --compare old.json",
)


class ReportFiles(NamedTuple):
    """Paths of the page, of its data, and of the data of an earlier run."""

    page: Path
    data: Path | None
    other: Path | None


def file_options(command: Command) -> Command:
    """Add -o, --json and --compare, passed to the command as one `paths`."""

    @click.option(
        "-o",
        "--output",
        type=FILE,
        default="report.html",
        show_default=True,
        help="HTML file to write.",
    )
    @click.option("--json", "data", type=FILE, help="File to write the data to, as JSON.")
    @click.option(
        "--compare", "other", type=FILE, help="Data of an earlier run to show next to this one."
    )
    @functools.wraps(command)
    def wrapped(output: Path, data: Path | None, other: Path | None, **others: Any) -> None:
        command(paths=ReportFiles(output, data, other), **others)

    return wrapped


def measure_options(command: Command) -> Command:
    """Add --verify, --candidates and --seconds, passed to the command as one `measured`."""

    @click.option("--verify", is_flag=True, help="Compare every layer with the CPU runtime.")
    @click.option(
        "--candidates",
        is_flag=True,
        help="Time alternative kernels too, which takes about a minute.",
    )
    @click.option(
        "--seconds",
        type=click.FloatRange(0),
        default=3.0,
        show_default=True,
        help="Time limit of the measured runs, in seconds.",
    )
    @functools.wraps(command)
    def wrapped(verify: bool, candidates: bool, seconds: float, **others: Any) -> None:
        measured = {"verify": verify, "candidates": candidates, "seconds": seconds}
        command(measured=measured, **others)

    return wrapped


@click.command(help=__doc__, epilog=EXAMPLES)
@model_options
@placement_options
@file_options
@input_option
@measure_options
@picture_options
@postprocess_options
@seed_option
def command(
    arguments: ModelArguments,
    paths: ReportFiles,
    files: tuple[str, ...],
    measured: dict[str, Any],
    pictures: PictureOptions,
    seed: int,
) -> None:
    before = None if paths.other is None else read_record(paths.other)
    check_folders(paths.page, paths.data)
    opened = arguments.with_options(pixels=pictures.session_pixels(arguments))
    with (
        opened.open(follow_batch=not measured["verify"]) as session,
        progress() as bar,
    ):
        model: Described = shapes.as_opened(session)
        if arguments.options.postprocess is not None:
            model = with_own_outputs(arguments, model.inputs, files)
        inputs = gather_inputs(model, files, pictures, seed)
        bar.add_task("running and measuring", total=None)
        result = session.report(inputs.arrays, **measured)
    report = RunReport(with_input_names(result.record, files, seed, inputs.preprocessing), before)
    report.save(paths.page)
    if paths.data is not None:
        write_record(report.record, paths.data)
    show_written(report.record, paths)


def check_folders(*paths: Path | None) -> None:
    """Raise InputError for a file that cannot be written, before anything is run."""
    for path in paths:
        if path is not None and not path.parent.is_dir():
            what, why = f"'{path}' cannot be written", f"there is no folder '{path.parent}'"
            raise InputError(what, why, "create the folder, or choose another file")


def with_input_names(
    record: RunRecord,
    files: tuple[str, ...],
    seed: int,
    preprocessing: Mapping[str, Any] | None = None,
) -> RunRecord:
    """Return the record with the file names of inputs and the preprocessing of a picture, or the
    seed of random inputs.
    """
    names = ", ".join(Path(text.rpartition("=")[2]).name for text in files)
    converted = f" ({preprocessing['text']})" if preprocessing else ""
    text = f"{names}{converted}" if names else f"random numbers, seed {seed}"
    return replace(record, subject=replace(record.subject, data=text))


def show_written(record: RunRecord, paths: ReportFiles) -> None:
    """Print the time of a run, and the files that were written."""
    subject, times = record.subject, record.times
    where = f"{subject.device} ({subject.device_kind}), {subject.precision}"
    click.echo(f"{subject.model} on {where}: {duration(times.median)} per run")
    if record.summary:
        click.echo(record.summary)
    for path in (paths.page, paths.data):
        if path is not None:
            click.echo(f"{path}: {byte_count(path.stat().st_size)}")

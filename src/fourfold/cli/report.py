"""Write a report of a run: one page that shows what ran where and why, and how fast.

The page needs no network. It has the graph, a timeline, the kernels beside what the device can do
at most, memory, the start in its parts, advice, and with --verify accuracy by layer. --json keeps
the data; --compare shows a run that was kept so as the one before.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import click

from fourfold.cli._images import Scaling, scaling_options
from fourfold.cli._inputs import gather_inputs
from fourfold.cli._options import (
    Command,
    ModelArguments,
    input_option,
    model_options,
    postprocess_options,
    seed_option,
)
from fourfold.cli._show import byte_count, duration, progress
from fourfold.config import PLACEMENTS, PlacementName
from fourfold.errors import InputError
from fourfold.tools.report.run_report.record import RunRecord
from fourfold.tools.report.run_report.record_file import read_record, write_record
from fourfold.tools.report.run_report.report import RunReport

FILE = click.Path(dir_okay=False, path_type=Path)


class ReportFiles(NamedTuple):
    """Where the page and the data go, and the data of an earlier run."""

    page: Path
    data: Path | None
    other: Path | None


def file_options(command: Command) -> Command:
    """-o, --json and --compare, given to the command as one `paths`."""

    @click.option("-o", "--output", type=FILE, default="report.html", show_default=True)
    @click.option("--json", "data", type=FILE, help="Write the data here, too.")
    @click.option("--compare", "other", type=FILE, help="Data of an earlier run, to show beside.")
    @functools.wraps(command)
    def wrapped(output: Path, data: Path | None, other: Path | None, **rest: Any) -> None:
        command(paths=ReportFiles(output, data, other), **rest)

    return wrapped


def measure_options(command: Command) -> Command:
    """--verify, --candidates and --seconds, given to the command as one `asked`."""

    @click.option("--verify", is_flag=True, help="Compare every layer with the CPU runtime.")
    @click.option("--candidates", is_flag=True, help="Time other kernels, for a minute.")
    @click.option(
        "--seconds", type=click.FloatRange(0), default=3.0, show_default=True, help="Of runs."
    )
    @functools.wraps(command)
    def wrapped(verify: bool, candidates: bool, seconds: float, **rest: Any) -> None:
        asked = {"verify": verify, "candidates": candidates, "seconds": seconds}
        command(asked=asked, **rest)

    return wrapped


@click.command(help=__doc__)
@model_options
@file_options
@input_option
@click.option("--placement", type=click.Choice(PLACEMENTS), help="Where the model is to run.")
@measure_options
@scaling_options
@postprocess_options
@seed_option
def command(
    arguments: ModelArguments,
    paths: ReportFiles,
    files: tuple[str, ...],
    placement: PlacementName | None,
    asked: dict[str, Any],
    scaling: Scaling,
    seed: int,
) -> None:
    before = None if paths.other is None else read_record(paths.other)
    check_folders(paths.page, paths.data)
    opened = replace(arguments, pixels=scaling.pixels)
    with (
        opened.open(follow_batch=not asked["verify"], placement=placement or "auto") as session,
        progress() as bar,
    ):
        inputs = gather_inputs(session.inputs, files, scaling, seed).arrays
        bar.add_task("running and measuring", total=None)
        found = session.report(inputs, **asked)
    report = RunReport(with_words(found.record, files, seed), before)
    report.save(paths.page)
    if paths.data is not None:
        write_record(report.record, paths.data)
    show_written(report.record, paths)


def check_folders(*paths: Path | None) -> None:
    """Whatever cannot be written is told before anything is run."""
    for path in paths:
        if path is not None and not path.parent.is_dir():
            what, why = f"'{path}' cannot be written", f"there is no folder '{path.parent}'"
            raise InputError(what, why, "make the folder, or name another file")


def with_words(record: RunRecord, files: tuple[str, ...], seed: int) -> RunRecord:
    """The record, with words for what inputs held."""
    given = ", ".join(Path(text.rpartition("=")[2]).name for text in files)
    words = given or f"random numbers, seed {seed}"
    return replace(record, subject=replace(record.subject, data=words))


def show_written(record: RunRecord, paths: ReportFiles) -> None:
    subject, times = record.subject, record.times
    where = f"{subject.device} ({subject.device_kind}), {subject.precision}"
    click.echo(f"{subject.model} on {where}: {duration(times.median)} a run")
    if record.summary:
        click.echo(record.summary)
    for path in (paths.page, paths.data):
        if path is not None:
            click.echo(f"{path}: {byte_count(path.stat().st_size)}")

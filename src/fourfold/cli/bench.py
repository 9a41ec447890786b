"""Measure how fast models are, beside the CPU runtimes of their formats where these are installed:
LiteRT for TFLite.

Runs until the times settle, then takes turns run by run: inputs from NumPy, outputs to NumPy. With
--streams so many sessions run at the same time, each in a thread of its own, which tells the
highest throughput. Several models, or a prepared file with several, become one table.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from fourfold.cli import describe_error, exit_code, show
from fourfold.cli._bench_report import OURS, show_models, show_report
from fourfold.cli._contestants import OWN, open_rivals, parse_rivals
from fourfold.cli._images import Scaling, scaling_options
from fourfold.cli._input_names import check_input_names
from fourfold.cli._inputs import gather_inputs
from fourfold.cli._options import (
    ModelArguments,
    input_option,
    json_option,
    models_options,
    seed_option,
)
from fourfold.cli._profile import profile_data
from fourfold.cli._show import progress, show_json
from fourfold.cli._timing import Call, Times, take_turns, take_turns_in_streams, warm_up
from fourfold.cli._trace import TRACE, traced
from fourfold.errors import FourfoldError, InputError
from fourfold.runtime.profile import Profile
from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    from rich.progress import Progress

    from fourfold.session import Session
    from fourfold.tools.report import run_parts
else:
    run_parts = lazy_import("fourfold.tools.report.run_parts")

RUNS = 200  # one after the other, where nobody says how many
PART_RUNS = 50  # of each way that tells the parts of a run, of which there are six
TRACED_RUNS = 5
WARM_UP = 10  # runs on another machine before those that count


@dataclass(frozen=True)
class Measuring:
    """What is measured, and for how long."""

    runs: int
    seconds: float
    streams: int
    threads: int | None
    rivals: tuple[str, ...]
    profile: bool
    files: tuple[str, ...]
    scaling: Scaling
    seed: int


@click.command(help=__doc__)
@models_options
@input_option
@click.option(
    "--runs", type=click.IntRange(1), help="At most.  [default: 200, in several streams any number]"
)
@click.option(
    "--seconds", type=click.FloatRange(0), default=10.0, show_default=True, help="At most, a model."
)
@click.option(
    "--streams", type=click.IntRange(1, 64), default=1, show_default=True, help="Runs at once."
)
@click.option("--threads", type=click.IntRange(1), help="Of the processor.  [default: all]")
@click.option(
    "--compare",
    default=OWN,
    metavar="NAMES",
    show_default=True,
    help="With these CPU runtimes, as in --compare litert,onnxruntime; 'own' is the format's own.",
)
@click.option("--no-compare", is_flag=True, help="With none.")
@click.option("--profile", is_flag=True, help="Time each kernel, too.")
@scaling_options
@TRACE
@seed_option
@json_option
def command(
    arguments: list[ModelArguments],
    compare: str,
    no_compare: bool,
    trace: Path | None,
    as_json: bool,
    **stated: Any,
) -> None:
    rivals = () if no_compare else parse_rivals(compare)
    stated["runs"] = stated["runs"] or (RUNS if stated["streams"] == 1 else sys.maxsize)
    measuring = Measuring(rivals=rivals, **stated)
    scaling = measuring.scaling
    pixels = scaling.pixels if measuring.files else scaling.only_pixels()
    if trace is not None and len(arguments) > 1:
        what, why = "--trace is for one model", f"there are {len(arguments)}"
        raise InputError(what, why, "give one model, or leave --trace out")
    models = [replace(one, pixels=pixels, trace=trace) for one in arguments]
    if len(models) == 1:
        report = measure(models[0], measuring)
        (show_json if as_json else show_report)(report)
        return
    reports, failures = _measure_all(models, measuring, as_json)
    if as_json:
        show_json({"models": reports})
    else:
        show_models([report for report in reports if "error" not in report])
    click.get_current_context().exit(max(map(exit_code, failures), default=0))


def _measure_all(
    models: Sequence[ModelArguments], measuring: Measuring, as_json: bool
) -> tuple[list[dict[str, Any]], list[FourfoldError]]:
    """A report for every model. One that cannot be measured keeps nobody from the others."""
    reports, failures = [], []
    for arguments in models:
        try:
            reports.append(measure(arguments, measuring))
        except FourfoldError as error:
            failures.append(error)
            reports.append({"model": arguments.model, "error": describe_error(error)})
            if not as_json:
                show(error, as_json)
    return reports, failures


def measure(arguments: ModelArguments, measuring: Measuring) -> dict[str, Any]:
    """All that is told of one model."""
    check_input_names(arguments, measuring.files)
    began = time.perf_counter()
    with ExitStack() as stack, progress() as bar:
        session = stack.enter_context(arguments.open(threads=measuring.threads))
        start = {"total": time.perf_counter() - began, **session.timings}
        how = (measuring.scaling, measuring.seed)
        inputs = gather_inputs(session.inputs, measuring.files, *how).arrays
        more = [arguments.open(threads=measuring.threads) for _ in range(measuring.streams - 1)]
        sessions = [session, *map(stack.enter_context, more)]
        rivals = {} if session.device.remote else _open_rivals(arguments, inputs, measuring)
        times = _time(sessions, inputs, rivals, measuring, bar)
        kernels = session.profile(inputs) if measuring.profile else Profile(())
        parts = None
        if measuring.streams == 1:
            fitting = round(measuring.seconds / (6 * times[OURS].median))
            parts = run_parts.measure_parts(session, inputs, max(1, min(PART_RUNS, fitting)))
        with traced(arguments, session, opening=False):  # that is long ago
            for _ in range(TRACED_RUNS if arguments.trace else 0):
                session.run(inputs)
        report = {**_describe(arguments, session, measuring), "start": start}
    frames = report["frames"]
    ratios = {name: times[OURS].median / times[name].median for name in rivals}
    if measuring.streams > 1:
        ratios = {name: times[name].rate / times[OURS].rate for name in rivals}
    report["seconds"] = {name: found.as_data() for name, found in times.items()}
    report["throughput"] = {name: found.rate * frames for name, found in times.items()}
    report |= {"compared": bool(rivals), "ratios": ratios}
    for name in list(rivals)[:1]:
        report |= {"rival": name, "ratio": ratios[name]}
    report["parts"] = None if parts is None else asdict(parts)
    return report | profile_data(kernels)


def _describe(arguments: ModelArguments, session: Session, how: Measuring) -> dict[str, Any]:
    """What was measured. An image of a batch is a frame, and so is any other run."""
    shape = session.inputs[0].shape if session.inputs else ()
    return {
        "model": arguments.model,
        "title": arguments.title,
        "device": str(session.device),
        "precision": session.precision,
        "streams": how.streams,
        "frames": shape[0] if len(shape) == 4 else 1,
        "launches": len(session.compiled.launches),
        "arena": session.compiled.bytes("arena"),
    }


def _open_rivals(
    arguments: ModelArguments, inputs: Mapping[str, np.ndarray], how: Measuring
) -> dict[str, list[Call]]:
    if not how.rivals:
        return {}
    return open_rivals(arguments, inputs, how.rivals, how.threads, how.streams)


def _time(
    sessions: Sequence[Session],
    inputs: Mapping[str, np.ndarray],
    rivals: Mapping[str, Sequence[Call]],
    how: Measuring,
    bar: Progress,
) -> dict[str, Times]:
    """The times of fourfold and of those that it is compared with."""
    session = sessions[0]
    if session.device.remote and not session.is_in_parts:
        if how.streams > 1:
            what, why = "--streams is for devices of this machine", "others are timed over there"
            raise InputError(what, why, "leave --streams out")
        bar.add_task(f"measuring on {session.device.address}", total=None)
        return {OURS: Times.of(time_elsewhere(session, inputs, how.runs, how.seconds))}
    ours: list[Call] = [partial(one.run, inputs) for one in sessions]
    streams: dict[str, Sequence[Call]] = {OURS: ours, **rivals}
    task = bar.add_task("warming up", total=None)
    for name, calls in streams.items():
        bar.update(task, description=f"warming up {name}")
        for call in calls:
            warm_up(call, limit=max(how.seconds / len(calls), 1.0))
    if how.streams > 1:
        bar.update(task, description="measuring")
        return take_turns_in_streams(streams, how.runs, how.seconds)
    bar.update(task, description="measuring", total=how.runs)
    alone = {name: found[0] for name, found in streams.items()}
    return take_turns(alone, how.runs, how.seconds, partial(bar.advance, task))


def time_elsewhere(
    session: Session, inputs: Mapping[str, np.ndarray], runs: int, limit: float
) -> list[float]:
    """Seconds of runs by the clock of another machine, where arrays are that machine's."""
    took = session.run_seconds(inputs, WARM_UP)[-1]
    return session.run_seconds(inputs, max(1, min(runs, round(limit / max(took, 1e-6)))))

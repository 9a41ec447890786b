"""Measure how fast models run, next to the CPU runtimes of their formats (LiteRT, ONNX Runtime, …).

Runs go from NumPy arrays to NumPy arrays. They are repeated until their times settle; then fourfold
and the CPU runtimes are measured interleaved, run by run. With --streams, several sessions run at
the same time, each in a thread of its own, for the highest throughput. Several models, or a
prepared file with several, are shown in one table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from fourfold.cli import describe_error, exit_code, show
from fourfold.cli._bench_report import show_models, show_report
from fourfold.cli._described import with_own_outputs
from fourfold.cli._images import PictureOptions, picture_options
from fourfold.cli._input_names import check_input_names
from fourfold.cli._inputs import gather_inputs
from fourfold.cli._options import (
    ModelArguments,
    examples,
    input_option,
    json_option,
    models_options,
    placement_options,
    seed_option,
)
from fourfold.cli._show import show_json
from fourfold.cli._trace import TRACE, show_trace_path
from fourfold.errors import FourfoldError, InputError
from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    from fourfold.runtime.tensor_info import TensorInfo
    from fourfold.tools.report import benchmark as benchmarks
else:
    benchmarks = lazy_import("fourfold.tools.report.benchmark")

Measure = Callable[[ModelArguments], dict[str, Any]]
EXAMPLES = examples(
    "fourfold bench model.tflite --precision mixed",
    "fourfold bench app.fourfold --streams 4 --seconds 20 --no-compare",
)


@click.command(help=__doc__, epilog=EXAMPLES)
@models_options
@placement_options
@input_option
@click.option(
    "--runs",
    type=click.IntRange(1),
    help="Largest number of runs per model.  [default: 200; unlimited in several streams]",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0),
    default=10.0,
    show_default=True,
    help="Time limit per model, in seconds.",
)
@click.option(
    "--streams",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Number of sessions that run at the same time.",
)
@click.option(
    "--threads", type=click.IntRange(1), help="Number of CPU threads.  [default: all cores]"
)
@click.option(
    "--compare",
    default="own",
    metavar="NAMES",
    show_default=True,
    help="CPU runtimes to compare with, as in --compare litert,onnxruntime; 'own' is that of the "
    "model's format.",
)
@click.option("--no-compare", is_flag=True, help="Do not measure the format's CPU runtime.")
@click.option("--profile", is_flag=True, help="Measure every kernel too.")
@picture_options
@TRACE
@seed_option
@json_option
def command(
    arguments: list[ModelArguments],
    files: tuple[str, ...],
    pictures: PictureOptions,
    compare: str,
    no_compare: bool,
    as_json: bool,
    **stated: Any,
) -> None:
    if stated["trace"] is not None and len(arguments) > 1:
        what, why = "--trace takes one model", f"{len(arguments)} models were given"
        raise InputError(what, why, "give one model, or leave --trace out")
    options = {"threads": stated.pop("threads"), "progress": True}
    decide = pictures.session_pixels if files else pictures.only_pixels
    models = [one.with_options(pixels=decide(one), **options) for one in arguments]
    stated["compare"] = False if no_compare else compare

    def measure(model: ModelArguments) -> dict[str, Any]:
        return _measure(model, files, pictures, **stated)

    if len(models) == 1:
        report = measure(models[0])
        (show_json if as_json else show_report)(report)
        return
    reports, failures = _measure_all(models, measure, as_json)
    if as_json:
        show_json({"models": reports})
    else:
        show_models([report for report in reports if "error" not in report])
    click.get_current_context().exit(max(map(exit_code, failures), default=0))


def _measure_all(
    models: Sequence[ModelArguments], measure: Measure, as_json: bool
) -> tuple[list[dict[str, Any]], list[FourfoldError]]:
    """Measure every model; one that fails does not keep the others from being measured."""
    reports, failures = [], []
    for arguments in models:
        try:
            reports.append(measure(arguments))
        except FourfoldError as error:
            failures.append(error)
            reports.append({"model": arguments.model, "error": describe_error(error)})
            if not as_json:
                show(error, as_json)
    return reports, failures


def _measure(
    arguments: ModelArguments,
    files: tuple[str, ...],
    pictures: PictureOptions,
    *,
    seed: int,
    trace: Path | None,
    **stated: Any,
) -> dict[str, Any]:
    check_input_names(arguments, files)
    converted: list[dict[str, Any] | None] = []

    def read(infos: Sequence[TensorInfo]) -> dict[str, np.ndarray]:
        model = with_own_outputs(arguments, infos, files)
        inputs = gather_inputs(model, files, pictures, seed)
        converted.append(inputs.preprocessing)
        return inputs.arrays

    report = benchmarks.benchmark(
        arguments.model,
        read,
        seed=seed,
        trace=trace,
        **stated,
        **arguments.options.keywords(),
    )
    for note in report.notes:
        click.echo(note, err=True)
    show_trace_path(trace)
    return {**report.to_json(), "preprocessing": converted[0]}

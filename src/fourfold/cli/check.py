"""Report where a model would run on a device, why, and what could be improved; nothing is run.

Without a GPU, --device null checks for a generic one. For a prepared file, the report says which
plan the device would play.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from fourfold.cli._metadata import show_about
from fourfold.cli._options import (
    ModelArguments,
    examples,
    json_option,
    model_options,
    placement_options,
)
from fourfold.cli._show import duration, echo, short_name, show_json, show_line, show_table
from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    from fourfold.plan.placement import Placement
    from fourfold.tools import example_shapes
    from fourfold.tools.report import check as checks
    from fourfold.tools.report.check import CheckReport
    from fourfold.tools.report.prepared_plan import PreparedPlan
else:
    checks = lazy_import("fourfold.tools.report.check")
    example_shapes = lazy_import("fourfold.tools.example_shapes")

EXAMPLES = examples(
    "fourfold check model.tflite",
    "fourfold check model.onnx --device null --precision mixed",
)


@click.command(help=__doc__, epilog=EXAMPLES)
@model_options
@placement_options
@json_option
def command(arguments: ModelArguments, as_json: bool) -> None:
    report = checks.check(arguments.model, **arguments.options.keywords())
    if as_json:
        show_json(report.to_json())
        return
    if report.prepared is not None:
        _show_prepared(report.title, report.prepared)
    else:
        _show(report)
    if report.self_test is not None:
        show_line(f"self-test of {report.device}: {report.self_test}")


def _show_prepared(title: str, plan: PreparedPlan) -> None:
    show_line(f"{title}: {plan.summary}")
    show_line(plan.placement.summary)
    show_parts(plan.placement)
    kernels = "are in the file" if plan.has_binaries else "are built when it is first opened"
    show_line(f"binaries of its kernels {kernels}; for advice, check the model itself")


def _show(report: CheckReport) -> None:
    placement = report.placement
    if report.example_shapes:
        show_line(example_shapes.example_note(report.example_shapes))
    show_line(f"{report.title}: {placement.summary}")
    if placement.origin:
        show_line(placement.origin)
    alone = f"{duration(placement.cpu_seconds)} with {placement.engine or 'NumPy'} on the CPU alone"
    show_line(f"estimated time of a run: {duration(placement.seconds)}, {alone}")
    show_parts(placement)
    if placement.fallbacks:
        rows = (
            (len(rows), op, placement.title(place), reason, _names([row.name for row in rows]))
            for (op, place, reason), rows in placement.grouped()
        )
        show_table("not on the device", (">count", "op", "runs on", "why", "operators"), rows)
    if report.advice:
        lines = ((duration(item.seconds), item.kind, str(item)) for item in report.advice)
        show_table("advice", (">could save", "kind", "advice"), lines)
    else:
        echo("no advice")
    show_about(report.metadata, report.signatures)


def show_parts(placement: Placement) -> None:
    """Print a table of parts; for a model in one part, its inputs and outputs."""
    if len(placement.parts) == 1:
        part = placement.parts[0]
        transfer = f"including {duration(part.transfer)} for transfers"
        show_line(f"in one part on the {placement.title(part.target)}, {transfer}")
        show_line(f"inputs: {_names(part.inputs)}; outputs: {_names(part.outputs)}\n")
        return
    rows = (
        (
            number,
            placement.title(part.target),
            part.operators,
            duration(part.seconds),
            duration(part.transfer),
            _names(part.inputs),
            _names(part.outputs),
        )
        for number, part in enumerate(placement.parts)
    )
    columns = (">part", "runs on", ">operators", ">time", ">transfer", "inputs", "outputs")
    show_table("parts", columns, rows)


def _names(names: Sequence[str], limit: int = 4) -> str:
    """Return the first names, each shortened to the first that an exporter joined."""
    more = f", and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(short_name(name) for name in names[:limit]) + more

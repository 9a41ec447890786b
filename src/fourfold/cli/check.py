"""Say where a model would run on a device, why, and what could be better; does not run it.

Without a GPU at hand, --device null answers for a GPU of no particular make. Of a prepared file it
says which plan the device gets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from fourfold import backends
from fourfold.backends.null import NULL_GPU
from fourfold.cli._metadata import about_as_data, show_about
from fourfold.cli._options import ModelArguments, json_option, model_options
from fourfold.cli._show import duration, short_name, show_json, show_line, show_table
from fourfold.config import Config
from fourfold.store.prepared import is_prepared
from fourfold.store.store import configured_store
from fourfold.support.display import count_text
from fourfold.support.lazy import lazy_import

if TYPE_CHECKING:
    from fourfold.device import DeviceInfo
    from fourfold.plan.placement import Placement
    from fourfold.tools.report import check as checks
    from fourfold.tools.report import estimate as estimates
    from fourfold.tools.report import prepared_plan as prepared_plans
    from fourfold.tools.report.check import Report
    from fourfold.tools.report.prepared_plan import PreparedPlan
else:
    checks, estimates, prepared_plans = (
        lazy_import(f"fourfold.tools.report.{name}")
        for name in ("check", "estimate", "prepared_plan")
    )


@click.command(help=__doc__)
@model_options
@json_option
def command(arguments: ModelArguments, as_json: bool) -> None:
    config = Config.from_environment()
    wanted = arguments.device or config.device
    device = estimates.ANY_GPU if wanted == NULL_GPU.name else backends.find_device(wanted)
    verdict = None if device is estimates.ANY_GPU else _verdict(device, config)
    about = {"model": arguments.model, "device": str(device), "self_test": verdict}
    if is_prepared(arguments.model):
        store = None if device is estimates.ANY_GPU else configured_store(config)
        found = prepared_plans.find_prepared_plan(arguments.request(config, device), store)
        if as_json:
            show_json({**about, "prepared": found.to_json()})
        else:
            _show_prepared(arguments.title, found)
    else:
        report = _check(arguments, device, config)
        if as_json:
            described = about_as_data(report.metadata, report.signatures)
            show_json({**about, **report.to_json(), **described})
        else:
            _show(arguments.title, report)
    if verdict is not None and not as_json:
        show_line(f"{device.name} in a self-test: {verdict}")


def _check(arguments: ModelArguments, device: DeviceInfo, config: Config) -> Report:
    options = arguments.compile_options(config)
    content, origin = arguments.readable
    plain = NULL_GPU if device is estimates.ANY_GPU else device
    return checks.check_model(content, arguments.title, plain, options, origin=origin)


def _verdict(device: DeviceInfo, config: Config) -> str:
    store = configured_store(config)
    return backends.describe_verdict(backends.with_run_facts(device, store))


def _show_prepared(title: str, found: PreparedPlan) -> None:
    made = f"made for {found.made_for}{', this very device' if found.fits_device else ''}"
    launches = count_text(found.launches, "launch", "launches")
    show_line(f"{title}: {found.model} in {found.precision}, {launches}, {made}")
    show_line(found.placement.summary)
    show_parts(found.placement)
    kernels = (
        "come with it" if found.has_binaries else "are built from text when it is first opened"
    )
    show_line(f"binaries of its kernels {kernels}; advice is given on the model itself")


def _show(title: str, report: Report) -> None:
    placement = report.placement
    show_line(f"{title}: {placement.summary}")
    if placement.origin:
        show_line(placement.origin)
    alone = f"{duration(placement.cpu_seconds)} in {placement.engine or 'NumPy'} on the CPU alone"
    show_line(f"estimated: {duration(placement.seconds)} a run, {alone}")
    show_parts(placement)
    if placement.fallbacks:
        rows = (
            (len(rows), op, placement.title(place), reason, _names([row.name for row in rows]))
            for (op, place, reason), rows in placement.grouped()
        )
        show_table("not on the device", (">count", "op", "runs on", "why", "operators"), rows)
    if report.advice:
        lines = ((duration(item.seconds), item.kind, str(item)) for item in report.advice)
        show_table("advice", (">could save", "about", "what"), lines)
    else:
        click.echo("nothing to advise")
    show_about(report.metadata, report.signatures)


def show_parts(placement: Placement) -> None:
    """What each part does, or of a model in one piece what goes in and out."""
    if len(placement.parts) == 1:
        part = placement.parts[0]
        moved = f"with {duration(part.transfer)} for what goes in and out of it"
        show_line(f"in one part on the {placement.title(part.target)}, {moved}")
        show_line(f"gets {_names(part.inputs)}; gives {_names(part.outputs)}\n")
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
    columns = (">part", "runs on", ">operators", ">time", ">transfer", "gets", "gives")
    show_table("parts", columns, rows)


def _names(names: Sequence[str], most: int = 4) -> str:
    """The first of many, each without what exporters string behind it."""
    more = f", and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(short_name(name) for name in names[:most]) + more

"""Say where a model would run on a device, why, and what could be better; does not run it.

Without a GPU at hand, --device null answers for a GPU of no particular make.
"""

from __future__ import annotations

from pathlib import Path

import click

from fourfold import players
from fourfold.cli._metadata import about_as_data, show_about
from fourfold.cli._options import ModelArguments, json_option, model_options
from fourfold.cli._show import duration, show_json, show_table
from fourfold.config import Config
from fourfold.device import DeviceInfo
from fourfold.placement import Placement
from fourfold.players.null import NULL_GPU
from fourfold.report.check import Report, check_model
from fourfold.store.store import configured_store


@click.command(help=__doc__)
@model_options
@json_option
def command(arguments: ModelArguments, as_json: bool) -> None:
    config = Config.from_environment()
    wanted = arguments.device or config.device
    device = NULL_GPU if wanted == "null" else players.find_device(wanted)
    options, title = arguments.compile_options(config), Path(arguments.model).name
    content, origin = arguments.readable
    report = check_model(content, title, device, options, origin)
    verdict = None if device is NULL_GPU else _verdict(device, config)
    if as_json:
        about = {"model": arguments.model, "device": str(device), "self_test": verdict}
        described = about_as_data(report.metadata, report.signatures)
        show_json({**about, **report.to_json(), **described})
    else:
        _show(title, report)
        show_about(report.metadata, report.signatures)
        if verdict is not None:
            click.echo(f"{device.name} in a self-test: {verdict}")


def _verdict(device: DeviceInfo, config: Config) -> str:
    store = configured_store(config)
    return players.describe_verdict(players.ready_to_play(device, store))


def _show(title: str, report: Report) -> None:
    placement = report.placement
    click.echo(f"{title}: {placement.summary}")
    if placement.origin:
        click.echo(placement.origin)
    alone = duration(placement.cpu_seconds)
    click.echo(f"estimated {duration(placement.seconds)} a run, {alone} on the CPU alone")
    show_parts(placement)
    if placement.fallbacks:
        rows = (
            (len(rows), op, placement.title(place), reason, ", ".join(row.name for row in rows[:4]))
            for (op, place, reason), rows in placement.grouped()
        )
        show_table("not on the GPU", (">count", "op", "runs on", "why", "operators"), rows)
    if report.advice:
        lines = ((duration(item.seconds), item.kind, str(item)) for item in report.advice)
        show_table("advice", (">could save", "about", "what"), lines)
    else:
        click.echo("nothing to advise")


def show_parts(placement: Placement) -> None:
    rows = (
        (
            number,
            placement.title(part.target),
            part.operators,
            duration(part.seconds),
            duration(part.transfer),
            ", ".join(part.inputs),
            ", ".join(part.outputs),
        )
        for number, part in enumerate(placement.parts)
    )
    columns = (">part", "runs on", ">operators", ">time", ">transfer", "gets", "gives")
    show_table("parts", columns, rows)

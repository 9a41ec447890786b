"""Compile models for devices and write one prepared file, which starts at once.

The file holds plans, packed weights, kernels and, for each device, binaries and tuned kernel
choices. It also holds generic plans, for any GPU and any CPU, or with --only-here for the kinds of
the named devices. Session("out.fourfold") needs neither the model nor a reader for its format.

--device cuda:sm_87 prepares for GPUs of that architecture, which need not be attached. --adb and
--ssh prepare for the GPU of a phone or another machine, whose driver builds and times the kernels;
nothing is left on it. --web prepares for browsers, which play the file with fourfold.js; without
--device, for browsers only.

An interruption or a full disk leaves an existing file unchanged. Running an interrupted command
again continues where it stopped.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from fourfold.cli._completing import complete_device
from fourfold.cli._images import PictureOptions, picture_options
from fourfold.cli._options import (
    ADB_HELP,
    SSH_HELP,
    ModelArguments,
    ModelPath,
    examples,
    json_option,
    parse_shape,
    placement_option,
    postprocess_option,
    precision_option,
    shape_option,
    signature_option,
)
from fourfold.cli._show import byte_count, duration, show_json, show_line, show_table
from fourfold.compiler.tune import LEVELS
from fourfold.options import SessionOptions
from fourfold.tools.prepare import DevicePlan, GenericPlan, PreparedFile, prepare

EXAMPLES = examples(
    "fourfold prepare model.tflite -o app.fourfold --tune rapid",
    "fourfold prepare model.onnx -o app.fourfold --add --device cuda:sm_87",
)


@dataclass(frozen=True)
class Targets:
    """Devices to prepare for, as `fourfold.prepare` takes them."""

    devices: tuple[str, ...]
    units: int | None
    web: bool


def _target_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --device, --adb, --ssh, --units and --web, passed to the command as one `targets`."""

    @click.option(
        "--device",
        "names",
        multiple=True,
        metavar="NAME",
        help="Device to prepare for. Repeat for more devices.  [default: FOURFOLD_DEVICE or auto]",
        shell_complete=complete_device,
    )
    @click.option("--adb", multiple=True, metavar="SERIAL", help=ADB_HELP)
    @click.option("--ssh", multiple=True, metavar="HOST", help=SSH_HELP)
    @click.option(
        "--units",
        type=click.IntRange(1),
        help="Number of compute units of the target GPU (when it is not attached).",
    )
    @click.option(
        "--web", is_flag=True, help="Prepare for browsers too; only for them without --device."
    )
    @functools.wraps(command)
    def wrapped(
        names: tuple[str, ...],
        adb: tuple[str, ...],
        ssh: tuple[str, ...],
        units: int | None,
        web: bool,
        **others: Any,
    ) -> None:
        remote = [f"{api}:{name}" for api, all_ in (("adb", adb), ("ssh", ssh)) for name in all_]
        command(targets=Targets((*names, *remote), units, web), **others)

    return wrapped


@click.command(help=__doc__, epilog=EXAMPLES)
@click.argument("models", nargs=-1, required=True, type=ModelPath())
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write, such as app.fourfold.",
)
@_target_options
@precision_option
@placement_option
@shape_option
@click.option(
    "--tune",
    type=click.Choice(tuple(LEVELS)),
    default="none",
    show_default=True,
    help="How thoroughly to look for faster kernels, by timing them on the device.",
)
@click.option(
    "--deadline",
    type=float,
    metavar="SECONDS",
    help="Time limit of tuning one model, in seconds.  [default: none]",
)
@click.option("--add", is_flag=True, help="Keep the plans that an existing file holds.")
@click.option(
    "--everywhere/--only-here",
    default=True,
    help="Add generic plans for GPUs and CPUs of any make, or only for the kinds of the named "
    "devices.  [default: everywhere]",
)
@picture_options
@signature_option
@postprocess_option
@json_option
def command(
    models: tuple[str, ...],
    output: Path,
    targets: Targets,
    shapes: tuple[str, ...],
    pictures: PictureOptions,
    as_json: bool,
    **options: Any,
) -> None:
    sizes = dict(parse_shape(text) for text in shapes)
    described = SessionOptions(shapes=sizes, signature=options["signature"])
    arguments = [ModelArguments(model, described) for model in models]
    report = prepare(
        models,
        output,
        devices=targets.devices or None,
        units=targets.units,
        web=targets.web,
        shapes=sizes,
        pixels=pictures.only_pixels(*arguments),
        progress=True,
        **options,
    )
    if as_json:
        show_json(report.to_json())
    else:
        _show(report)


def _show(report: PreparedFile) -> None:
    show_line(f"{report.path}: {byte_count(report.size)} in {duration(report.seconds)}\n")
    plans: list[DevicePlan | GenericPlan] = [*report.plans, *report.generic]
    for model in dict.fromkeys(plan.model for plan in plans):
        _show_plans(model, [plan for plan in plans if plan.model == model])
    for plan in report.plans:
        if plan.search is not None:
            show_line(f"{plan.model} on {plan.device}: {plan.search}")


def _show_plans(model: str, plans: Sequence[DevicePlan | GenericPlan]) -> None:
    """Print the plans of a model; only plans for a device have binaries and times."""
    columns = ("prepared for", "precision", ">launches", ">binary", ">tuning", ">total")
    rows = []
    for plan in plans:
        cells = ("-", "-", "-")
        if isinstance(plan, DevicePlan):
            cells = (byte_count(plan.binary), duration(plan.tuning), duration(plan.seconds))
        rows.append((plan.device, plan.precision, plan.launches, *cells))
    show_table(model, columns, rows)

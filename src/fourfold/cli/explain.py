"""Show a model as one stage of the way sees it; needs no device.

graph: as the file has it. rewritten: after the passes. plan: launches and memory.
kernels: their text. Without --device it shows what a GPU of no particular make would get. Of a
prepared file it shows the plan or the kernels that the device gets.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from fourfold.backends import find_device
from fourfold.backends.null import NULL_GPU
from fourfold.cli._images import pixels_options
from fourfold.cli._options import (
    ModelArguments,
    json_option,
    model_options,
    postprocess_options,
)
from fourfold.cli._show import show_json
from fourfold.config import Config
from fourfold.session import Stage, explain_stage
from fourfold.store.prepared import is_prepared
from fourfold.store.store import configured_store
from fourfold.support.lazy import lazy_import
from fourfold.tools.report.estimate import ANY_GPU
from fourfold.tools.report.prepared_plan import find_prepared_plan

if TYPE_CHECKING:
    from fourfold.cli import _export as exports
else:
    exports = lazy_import("fourfold.cli._export")  # it brings the whole compiler


@click.command(help=__doc__)
@model_options
@click.option(
    "--stage",
    type=click.Choice(get_args(Stage)),
    help="  [default: graph, of a prepared file plan]",
)
@click.option(
    "--export",
    "form",
    type=click.Choice(("model-explorer", "onnx")),
    help="Write the graphs for a viewer: Model Explorer, or the rewritten one as ONNX for Netron.",
)
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="The file of --export."
)
@click.option("--times", is_flag=True, help="Run it, and export times as node data, too.")
@pixels_options
@postprocess_options
@json_option
def command(
    arguments: ModelArguments,
    stage: Stage | None,
    form: str | None,
    output: Path | None,
    times: bool,
    as_json: bool,
) -> None:
    if form is not None:
        exports.export(arguments, form, output, times)
        return
    config = Config.from_environment()
    if is_prepared(arguments.model):
        stage = stage or "plan"
        text = _prepared_text(arguments, stage, config)
    else:
        stage = stage or "graph"
        options = arguments.compile_options(config)
        text = explain_stage(arguments.model, stage, arguments.device, options)
    if as_json:
        show_json({"model": arguments.model, "stage": stage, "text": text})
    else:
        click.echo(text)


def _prepared_text(arguments: ModelArguments, stage: Stage, config: Config) -> str:
    if arguments.device in (None, NULL_GPU.name):
        return find_prepared_plan(arguments.request(config, ANY_GPU), None).stage_text(stage)
    request = arguments.request(config, find_device(arguments.device))
    return find_prepared_plan(request, configured_store(config)).stage_text(stage)

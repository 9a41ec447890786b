"""Show a model as one stage of the way sees it; needs no device.

graph: as the file has it. rewritten: after the passes. plan: launches and memory.
kernels: their text. Without --device it shows what a GPU of no particular make would get.
"""

from __future__ import annotations

from typing import get_args

import click

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


@click.command(help=__doc__)
@model_options
@click.option("--stage", type=click.Choice(get_args(Stage)), default="graph", show_default=True)
@pixels_options
@postprocess_options
@json_option
def command(arguments: ModelArguments, stage: Stage, as_json: bool) -> None:
    options = arguments.compile_options(Config.from_environment())
    text = explain_stage(arguments.model, stage, arguments.device, options)
    if as_json:
        show_json({"model": arguments.model, "stage": stage, "text": text})
    else:
        click.echo(text)

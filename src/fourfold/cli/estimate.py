"""Tell what a model will take of memory and arithmetic, without running it.

Takes models of every format and prepared files. --device null asks for a GPU of no particular make.
"""

from __future__ import annotations

import click

from fourfold.cli._images import pixels_options
from fourfold.cli._options import ModelArguments, json_option, model_options
from fourfold.cli._show import show_json
from fourfold.tools.report.estimate import estimate


@click.command(help=__doc__)
@model_options
@pixels_options
@json_option
def command(arguments: ModelArguments, as_json: bool) -> None:
    found = estimate(
        arguments.model,
        arguments.device,
        arguments.precision,
        arguments.shapes,
        model=arguments.name,
        pixels=arguments.pixels,
        signature=arguments.signature,
    )
    if as_json:
        show_json({"model": arguments.model, **found.to_json()})
    else:
        click.echo(found)

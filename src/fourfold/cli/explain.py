"""Show a model as one stage of the way sees it; needs no device.

graph: as the file has it. rewritten: after the passes. plan: launches and memory.
kernels: their text. Without --device it shows what a GPU of no particular make would get.
"""

from __future__ import annotations

import click

from fourfold import session
from fourfold.cli._images import pixels_options
from fourfold.cli._options import Engine, engine_options, json_option
from fourfold.cli._show import show_json

STAGES = ("graph", "rewritten", "plan", "kernels")


@click.command(help=__doc__)
@engine_options
@click.option("--stage", type=click.Choice(STAGES), default="graph", show_default=True)
@pixels_options
@json_option
def command(engine: Engine, stage: str, as_json: bool) -> None:
    how = (engine.device, engine.precision, engine.shapes, engine.pixels)
    text = session.stage(engine.model, stage, *how)
    if as_json:
        show_json({"model": engine.model, "stage": stage, "text": text})
    else:
        click.echo(text)

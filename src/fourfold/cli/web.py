"""Make a page that runs a model in a browser, on a camera or a picture.

The folder can be put on any static server; 'fourfold serve FOLDER' is one for trying. What is drawn
follows from the model: boxes and key points, masks, classes by their labels, or numbers. Pictures
are scaled as the model's metadata say, or to 0..1; --mean, --std and --range say otherwise.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from fourfold.cli._images import RANGE_HELP, parse_numbers
from fourfold.cli._options import (
    Command,
    ModelPath,
    json_option,
    parse_shape,
    postprocess_option,
    signature_option,
)
from fourfold.cli._show import byte_count, show_json
from fourfold.compiler.convert.files import readable_file
from fourfold.config import PRECISIONS, Config
from fourfold.errors import InputError
from fourfold.export.web.page import KINDS, make_page
from fourfold.options import CompileOptions, SessionOptions
from fourfold.processing.option import PostprocessOption
from fourfold.processing.pixels.frame_fit import FITS
from fourfold.store.store import configured_store
from fourfold.support.display import count_text

FOLDER = click.Path(file_okay=False, path_type=Path)
PICTURE = click.Path(exists=True, dir_okay=False, path_type=Path)


def _scaling_options(command: Command) -> Command:
    """--mean, --std, --range and --fit, given to the command as `scaling`: options of pictures."""

    @click.option("--range", "limits", default="", metavar="LOW,HIGH", help=RANGE_HELP)
    @click.option("--mean", default="", metavar="M[,M,M]", help="Taken from each pixel of 0..255.")
    @click.option("--std", default="", metavar="S[,S,S]", help="Each pixel is then divided by it.")
    @click.option("--fit", type=click.Choice(FITS), help="How pictures of other sizes go in.")
    @functools.wraps(command)
    def wrapped(limits: str, mean: str, std: str, fit: str | None, **rest: Any) -> None:
        scaling: dict[str, Any] = {} if fit is None else {"fit": fit}
        if mean or std:
            numbers = {"mean": parse_numbers("--mean", mean), "std": parse_numbers("--std", std)}
            scaling |= {"mean": numbers["mean"] or [0.0], "std": numbers["std"] or [1.0]}
        elif limits:
            scaling |= _spread(*parse_numbers("--range", limits, 2))
        command(scaling=scaling, **rest)

    return wrapped


def _spread(low: float, high: float) -> dict[str, float]:
    if low == high:
        what, why = f"--range {low},{high} has no width", "bytes are spread over it"
        raise InputError(what, why, "write it as --range 0,1")
    std = 255 / (high - low)
    return {"mean": -low * std, "std": std}


@click.command(help=__doc__)
@click.argument("model", type=ModelPath())
@click.option("-o", "--output", required=True, type=FOLDER, help="The page's folder.")
@click.option("--task", type=click.Choice(KINDS), help="What is drawn, if not as the model tells.")
@click.option("--picture", type=PICTURE, help="Shown first; the browser must know its format.")
@click.option("--precision", type=click.Choice(PRECISIONS), help="How values are kept.")
@click.option("--shape", "shapes", multiple=True, metavar="NAME=SIZES", help="Of an input.")
@_scaling_options
@signature_option
@postprocess_option
@json_option
def command(
    model: str,
    output: Path,
    task: str | None,
    picture: Path | None,
    scaling: dict[str, Any],
    as_json: bool,
    **stated: Any,
) -> None:
    config = Config.from_environment()
    options = _read_options(config, **stated)
    with readable_file(model, configured_store(config), config.conversion_limit) as readable:
        path = Path(readable)
        made = make_page(path, output, options, task, picture, scaling)
    (show_json if as_json else _show)(made)


def _read_options(
    config: Config,
    precision: str | None,
    shapes: tuple[str, ...],
    signature: str | None,
    postprocess: PostprocessOption | None,
) -> CompileOptions:
    sizes = dict(parse_shape(text) for text in shapes)
    stated = {"precision": precision, "shapes": sizes, "signature": signature}
    options = SessionOptions.of({**stated, "postprocess": postprocess})
    return options.compile_options(config)


def _show(made: Mapping[str, Any]) -> None:
    words = ("launch", "launches")
    plans = ", ".join(
        f"{plan['device']} ({count_text(plan['launches'], *words)})" for plan in made["plans"]
    )
    size = byte_count(made["model_bytes"])
    click.echo(f"{made['folder']}: a page that shows {made['task']}")
    click.echo(f"  the model, {size}, for {plans}")
    click.echo(f"  try it: fourfold serve {made['folder']}")

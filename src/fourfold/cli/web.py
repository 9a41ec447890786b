"""Write a web page that runs a model in a browser, on a camera or a picture.

Any static server can serve the folder; 'fourfold serve FOLDER' is one for testing. The page draws
boxes, key points, masks, classes or numbers, depending on the model. Pictures are scaled as the
model's metadata say, or to 0..1, unless --mean, --std or --range are given.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from fourfold.cli._images import MEAN_HELP, RANGE_HELP, STD_HELP, parse_numbers
from fourfold.cli._options import (
    Command,
    ModelPath,
    examples,
    json_option,
    parse_shape,
    postprocess_option,
    precision_option,
    shape_option,
    signature_option,
)
from fourfold.cli._show import byte_count, echo, show_json
from fourfold.compiler.convert.files import readable_file
from fourfold.config import Config
from fourfold.errors import InputError
from fourfold.export.web.page import KINDS, make_page
from fourfold.options import CompileOptions, SessionOptions
from fourfold.processing.option import PostprocessOption
from fourfold.processing.pixels.frame_fit import FITS
from fourfold.store.store import configured_store
from fourfold.support.display import count_text

FOLDER = click.Path(file_okay=False, path_type=Path)
PICTURE = click.Path(exists=True, dir_okay=False, path_type=Path)
EXAMPLES = examples(
    "fourfold web model.tflite -o page",
    "fourfold web yolo.onnx -o page --task boxes --picture photo.jpg",
)


def _scaling_options(command: Command) -> Command:
    """Add --mean, --std, --range and --fit, passed to the command as `scaling`."""

    @click.option("--range", "limits", default="", metavar="LOW,HIGH", help=RANGE_HELP)
    @click.option("--mean", default="", metavar="M[,M,M]", help=MEAN_HELP)
    @click.option("--std", default="", metavar="S[,S,S]", help=STD_HELP)
    @click.option(
        "--fit",
        type=click.Choice(FITS),
        help="How pictures of other sizes are fitted into the model's input.",
    )
    @functools.wraps(command)
    def wrapped(limits: str, mean: str, std: str, fit: str | None, **others: Any) -> None:
        scaling: dict[str, Any] = {} if fit is None else {"fit": fit}
        if mean or std:
            numbers = {"mean": parse_numbers("--mean", mean), "std": parse_numbers("--std", std)}
            scaling |= {"mean": numbers["mean"] or [0.0], "std": numbers["std"] or [1.0]}
        elif limits:
            scaling |= _spread(*parse_numbers("--range", limits, 2))
        command(scaling=scaling, **others)

    return wrapped


def _spread(low: float, high: float) -> dict[str, float]:
    if low == high:
        what, why = f"--range {low},{high} has no width", "pixels are scaled to it"
        raise InputError(what, why, "write it as --range 0,1")
    std = 255 / (high - low)
    return {"mean": -low * std, "std": std}


@click.command(help=__doc__, epilog=EXAMPLES)
@click.argument("model", type=ModelPath())
@click.option("-o", "--output", required=True, type=FOLDER, help="Folder to write the page to.")
@click.option(
    "--task", type=click.Choice(KINDS), help="Results to draw.  [default: as the model says]"
)
@click.option(
    "--picture",
    type=PICTURE,
    help="Picture to show first, in a format that browsers can read.",
)
@precision_option
@shape_option
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
    with readable_file(model, configured_store(config), config) as readable:
        path = Path(readable)
        page = make_page(path, output, options, task, picture, scaling)
    (show_json if as_json else _show)(page)


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


def _show(page: Mapping[str, Any]) -> None:
    plans = []
    for plan in page["plans"]:
        launches = count_text(plan["launches"], "launch", "launches")
        plans.append(f"{plan['device']} ({launches})")
    size = byte_count(page["model_bytes"])
    echo(f"{page['folder']}: a page that shows {page['task']}")
    echo(f"  the model, {size}, for {', '.join(plans)}")
    echo(f"  try it: fourfold serve {page['folder']}")

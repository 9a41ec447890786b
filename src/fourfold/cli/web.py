"""Write a web page that runs a model in a browser, on a camera or a picture.

Any static server can serve the folder; 'fourfold serve FOLDER' is one for testing. The page draws
boxes, key points, masks, classes or numbers, depending on the model. Pictures are scaled as for
'fourfold run', unless --mean, --std or --range are given; the command prints how.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click

from fourfold.cli._answers import labels_option
from fourfold.cli._images import PictureOptions, advice, stated_options
from fourfold.cli._options import (
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
from fourfold.export.web.page import make_page
from fourfold.export.web.task import KINDS
from fourfold.options import CompileOptions, SessionOptions
from fourfold.processing.option import PostprocessOption
from fourfold.store.store import configured_store
from fourfold.support.display import count_text
from fourfold.vision.labels import read_labels

FOLDER = click.Path(file_okay=False, path_type=Path)
PICTURE = click.Path(exists=True, dir_okay=False, path_type=Path)
EXAMPLES = examples(
    "fourfold web model.tflite -o page",
    "fourfold web yolo.onnx -o page --task boxes --picture photo.jpg",
)


# Arguments of Pixels that the player has options for.
FITTING = ("fit", "fill", "model_order")


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
@labels_option
@precision_option
@shape_option
@partial(stated_options, names=FITTING)
@signature_option
@postprocess_option
@json_option
def command(
    model: str,
    output: Path,
    task: str | None,
    picture: Path | None,
    labels: Path | None,
    pictures: PictureOptions,
    as_json: bool,
    **stated: Any,
) -> None:
    names = () if labels is None else read_labels(labels)
    config = Config.from_environment()
    options = _read_options(config, **stated)
    with readable_file(model, configured_store(config), config) as readable:
        path = Path(readable)
        page = make_page(path, output, options, task, picture, pictures.stated, names)
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
    converted = page["preprocessing"]
    if converted is not None:
        echo(f"  pictures: {converted['text']}{advice(converted['source'])}")
    echo(f"  the model, {size}, for {', '.join(plans)}")
    echo(f"  try it: fourfold serve {page['folder']}")

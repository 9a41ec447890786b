"""Create a page that runs a model: a folder for any static web server."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fourfold.compiler.load import load_model
from fourfold.errors import InputError
from fourfold.export.web.task import (
    Task,
    check_task,
    find_task,
    picture_settings,
    takes_picture,
    with_labels,
)
from fourfold.options import CompileOptions
from fourfold.processing.pixels.stated import StatedPixels
from fourfold.store.draft import Draft
from fourfold.tools.preparation import prepare_web
from fourfold.vision.describe import describe_model
from fourfold.vision.preprocessing import PictureInput, find_picture_input

PLAYER, TEMPLATE = "player", "template"
MODEL = "model.fourfold"
MARK = "page.json"  # marks a folder as a page of fourfold
# The files lie next to this module in an installed package, and in `web/` in a checkout.
_HERE = Path(__file__).parent
_CHECKOUT = _HERE.parents[3] / "web"
_FOLDERS = {PLAYER: "src", TEMPLATE: "page"}


def asset_folder(name: str) -> Path:
    """Return the folder of the player's scripts, or of the page's files."""
    for folder in (_HERE / name, _CHECKOUT / _FOLDERS[name]):
        if folder.is_dir():
            return folder
    what, why = "the page cannot be created", f"the files of the {name} are missing"
    raise InputError(what, why, "install fourfold again: pip install --force-reinstall fourfold")


def make_page(
    model: Path,
    folder: Path,
    options: CompileOptions,
    task: str | None = None,
    picture: Path | None = None,
    stated: StatedPixels | None = None,
    labels: Sequence[str] = (),
) -> dict[str, Any]:
    """Write the page of a model into a folder and return a summary.

    Args:
        model: The model file.
        folder: The folder to write.
        options: Compile options.
        task: How to show the outputs; by default the model's outputs decide.
        picture: The first picture to show.
        stated: Scaling, fit or channel order that override those of the model.
        labels: Class labels; by default those of the model's metadata.
    """
    check_folder(folder)
    loaded = load_model(str(model), options)
    chosen = find_task(loaded.model, model.name)
    chosen = chosen if task is None else check_task(task, loaded.model, chosen)
    own = loaded
    if options.postprocess is not None:  # the model's own outputs identify its family
        own = load_model(str(model), replace(options, postprocess=None))
    if labels:
        chosen = with_labels(chosen, own.model, labels, model.name)
    taken = None
    if takes_picture(own.model.main):
        name = own.model.input_names[0]
        taken = find_picture_input(describe_model(own.model, model.name), stated, name)
    if options.postprocess is None:
        options = replace(options, postprocess=chosen.postprocess)
    draft = Draft()
    plans = prepare_web(draft, model, options)
    folder.mkdir(parents=True, exist_ok=True)
    size = draft.write(folder / MODEL)
    _copy(asset_folder(TEMPLATE), folder)
    _copy(asset_folder(PLAYER), folder / PLAYER)
    settings = _settings(model, chosen, taken)
    if picture is not None:
        settings["sample"] = f"sample{picture.suffix.lower()}"
        shutil.copyfile(picture, folder / settings["sample"])
    (folder / MARK).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    converted = None if taken is None else taken.to_json()
    about = {"folder": str(folder), "task": chosen.kind, "preprocessing": converted}
    return {**about, "model_bytes": size, "plans": plans}


def check_folder(folder: Path) -> None:
    """Raise InputError if the folder has files that do not belong to a page of fourfold."""
    if folder.exists() and not (folder / MARK).exists() and any(folder.iterdir()):
        what, why = f"'{folder}' exists already", "its files are not a fourfold page"
        raise InputError(what, why, "choose another folder with -o")


def _settings(model: Path, task: Task, taken: PictureInput | None) -> dict[str, Any]:
    picture = {} if taken is None else picture_settings(taken)
    return {"title": model.stem, "model": MODEL, "picture": picture, **task.settings()}


def _copy(source: Path, target: Path) -> None:
    target.mkdir(exist_ok=True)
    for path in source.iterdir():
        if path.is_file():
            shutil.copyfile(path, target / path.name)

"""Create a page that runs a model: a folder for any static web server.

Shapes, labels and metadata decide how the page shows the model's outputs.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from fourfold.compiler.load import load_model
from fourfold.errors import InputError
from fourfold.formats import Model
from fourfold.graph import Graph
from fourfold.graph.metadata import tensor_at
from fourfold.options import CompileOptions
from fourfold.processing import ArgMax
from fourfold.processing.option import PostprocessOption
from fourfold.runtime.tensor_info import TensorInfo
from fourfold.store.draft import Draft
from fourfold.tools.preparation import prepare_web
from fourfold.types import DType, TensorType
from fourfold.vision.families.body import POINTS
from fourfold.vision.families.body import ROW as KEY_POINT
from fourfold.vision.families.mediapipe import mediapipe_detector
from fourfold.vision.families.segmentation import MAX_CLASSES
from fourfold.vision.families.ssd import DETECTIONS
from fourfold.vision.found import Edge
from fourfold.vision.meaning import DescribedModel
from fourfold.vision.shapes import MIN_SIDE_PIXELS
from fourfold.vision.skeletons import BODY


def describe_model(model: Model) -> DescribedModel:
    """Return the same inputs, outputs and metadata as a session on this model."""
    graph, metadata = model.main, model.metadata
    sides = (
        (model.input_names, graph.arguments, metadata.inputs),
        (model.output_names, graph.results, metadata.outputs),
    )
    inputs, outputs = (
        tuple(
            TensorInfo(
                name,
                graph.types[value].shape,
                graph.types[value].dtype.array_dtype,
                graph.quantization.get(value),
                read_metadata=partial(tensor_at, tensors, index),
            )
            for index, (name, value) in enumerate(zip(names, values, strict=True))
        )
        for names, values, tensors in sides
    )
    return DescribedModel(inputs, outputs, metadata)


KINDS = (
    "boxes",
    "detections",
    "keypoints",
    "mask",
    "classmap",
    "picture",
    "classes",
    "numbers",
)
_PICTURES = (DType.F32, DType.F16, DType.U8, DType.I8)


@dataclass(frozen=True)
class Task:
    """How outputs are drawn, and their post-processing on the GPU.

    Attributes:
        kind: 'boxes', 'detections', 'keypoints', 'mask', 'classmap', 'picture', 'classes' or
            'numbers'.
        postprocess: Post-processing of the outputs, or None.
        picture: Options for input pictures.
        edges: Connected key points.
    """

    kind: str
    postprocess: PostprocessOption | None = None
    picture: dict[str, Any] = field(default_factory=dict)
    edges: tuple[Edge, ...] = ()


def find_task(model: Model) -> Task:
    """Return the task for a model's inputs and outputs."""
    graph = model.main
    if not takes_picture(graph):
        return Task("numbers")
    outputs = [graph.types[name] for name in graph.results]
    return _detector(model, outputs) or _single(model, outputs) or Task("numbers")


def takes_picture(graph: Graph) -> bool:
    """Return True if the only input can be a picture: [1, height, width, channels] or NCHW."""
    if len(graph.arguments) != 1:
        return False
    kind = graph.types[graph.arguments[0]]
    if kind.dtype not in _PICTURES or kind.rank != 4 or kind.shape[0] != 1:
        return False
    _, first, second, last = kind.shape
    if last == 1 and min(first, second) < MIN_SIDE_PIXELS:
        return False  # probably audio features
    return last in (1, 3, 4) or first in (1, 3)


def _detector(model: Model, outputs: list[TensorType]) -> Task | None:
    if len(outputs) == DETECTIONS and _are_detections([kind.shape for kind in outputs]):
        return Task("detections")
    meaning = mediapipe_detector(describe_model(model))
    if meaning is None or meaning.scaling is None:
        return None
    scaling = meaning.scaling
    options = {"fit": scaling.fit, "fill": scaling.fill, **_scaling(scaling.low)}
    return Task("boxes", meaning.postprocess, options)


def _are_detections(shapes: list[tuple[int, ...]]) -> bool:
    """Return True for boxes [1,N,4], classes and scores [1,N], and their count."""
    boxes, classes, scores, count = shapes
    same = boxes[:-1] == classes == scores and len(classes) == 2
    return same and boxes[-1] == DETECTIONS and count in ((1,), ())


def _scaling(low: float) -> dict[str, float]:
    return {"mean": 127.5, "std": 127.5} if low < 0 else {"mean": 0.0, "std": 255.0}


def _single(model: Model, outputs: list[TensorType]) -> Task | None:
    """Return the task of a model with one output, or None."""
    kind = outputs[0]
    shape = tuple(size for size in kind.shape if size != 1)
    if len(outputs) > 1 or not shape:
        return None
    if kind.rank == 4 and min(kind.shape[1:3]) >= MIN_SIDE_PIXELS:
        return _image(model, kind)
    if shape[-1] == KEY_POINT and len(shape) == 2:
        return Task("keypoints", edges=BODY.edges if shape[0] == POINTS else ())
    return Task("classes") if len(shape) == 1 and shape[0] > 1 else None


def _image(model: Model, kind: TensorType) -> Task | None:
    channels = kind.channels
    about = model.metadata.outputs
    labelled = bool(about and about[0].label_texts())
    if channels == 1:
        return Task("mask")
    if channels == KEY_POINT and not labelled:
        return Task("picture")
    if channels <= MAX_CLASSES:
        return Task("classmap", ArgMax())
    return None


def check_task(kind: str, model: Model) -> Task:
    """Return the task that a caller requested. Another task than the default uses raw outputs."""
    default = find_task(model)
    if kind == default.kind:
        return default
    if not takes_picture(model.main) and kind != "numbers":
        what = f"{kind} of {model.main.name} cannot be drawn"
        raise InputError(what, "its input is not a picture", "use --task numbers")
    return Task(kind)


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
    scaling: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write the page of a model into a folder and return a summary.

    Args:
        model: The model file.
        folder: The folder to write.
        options: Compile options.
        task: How to show the outputs; by default the model's outputs decide.
        picture: The first picture to show.
        scaling: Pixel scaling that overrides that of the model and its task.
    """
    check_folder(folder)
    loaded = load_model(str(model), options)
    chosen = find_task(loaded.model) if task is None else check_task(task, loaded.model)
    if options.postprocess is None:
        options = replace(options, postprocess=chosen.postprocess)
    draft = Draft()
    plans = prepare_web(draft, model, options)
    folder.mkdir(parents=True, exist_ok=True)
    size = draft.write(folder / MODEL)
    _copy(asset_folder(TEMPLATE), folder)
    _copy(asset_folder(PLAYER), folder / PLAYER)
    settings = _settings(model, chosen, scaling or {})
    if picture is not None:
        settings["sample"] = f"sample{picture.suffix.lower()}"
        shutil.copyfile(picture, folder / settings["sample"])
    (folder / MARK).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    return {"folder": str(folder), "task": chosen.kind, "model_bytes": size, "plans": plans}


def check_folder(folder: Path) -> None:
    """Raise InputError if the folder has files that do not belong to a page of fourfold."""
    if folder.exists() and not (folder / MARK).exists() and any(folder.iterdir()):
        what, why = f"'{folder}' exists already", "its files are not a fourfold page"
        raise InputError(what, why, "choose another folder with -o")


def _settings(model: Path, task: Task, scaling: Mapping[str, Any]) -> dict[str, Any]:
    picture = {**task.picture, **scaling}
    shown = {"task": task.kind, "picture": picture, "edges": task.edges}
    return {"title": model.stem, "model": MODEL, **shown}


def _copy(source: Path, target: Path) -> None:
    target.mkdir(exist_ok=True)
    for path in source.iterdir():
        if path.is_file():
            shutil.copyfile(path, target / path.name)

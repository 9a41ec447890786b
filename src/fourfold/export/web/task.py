"""Task: how a page draws the outputs of a model.

The same families as for answers in Python decide what outputs mean, and which scores count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fourfold.errors import InputError
from fourfold.formats import Model
from fourfold.graph import Graph
from fourfold.processing import ArgMax, YoloBoxes
from fourfold.processing.option import PostprocessOption
from fourfold.types import DType, TensorType
from fourfold.vision.describe import describe_model
from fourfold.vision.families.body import DEFAULT_SCORE, POINTS
from fourfold.vision.families.body import ROW as KEY_POINT
from fourfold.vision.families.segmentation import MAX_CLASSES
from fourfold.vision.families.ssd import DEFAULT_SCORE as DETECTION_SCORE
from fourfold.vision.families.ssd import detection_roles
from fourfold.vision.found import Edge
from fourfold.vision.meaning import BACKGROUNDS, BOXES, DescribedModel, Meaning
from fourfold.vision.preprocessing import PictureInput
from fourfold.vision.read import check_labels, find_meaning
from fourfold.vision.shapes import CHANNELS, MIN_SIDE_PIXELS
from fourfold.vision.skeletons import BODY
from fourfold.vision.ultralytics import read_export_notes

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
_LABELLED = ("boxes", "detections", "classmap", "classes")
_PICTURES = (DType.F32, DType.F16, DType.U8, DType.I8)
_PROCESSED = {"boxes", "scores", "count"}  # outputs of a postprocessing that picks boxes
_LOGARITHMS = "exp"  # the operator that decodes the sizes of boxes


@dataclass(frozen=True)
class Task:
    """How outputs are drawn, and their post-processing on the GPU.

    Attributes:
        kind: 'boxes', 'detections', 'keypoints', 'mask', 'classmap', 'picture', 'classes' or
            'numbers'.
        postprocess: Post-processing of the outputs, or None.
        edges: Connected key points.
        score: Minimum score of detections and points that the page selects.
        labels: Class labels of boxes, or those of the caller. Without them, the page uses labels of
            the model's outputs.
        roles: Outputs of a detector with built-in post-processing, by role.
    """

    kind: str
    postprocess: PostprocessOption | None = None
    edges: tuple[Edge, ...] = ()
    score: float | None = None
    labels: tuple[str, ...] = ()
    roles: Mapping[str, str] = field(default_factory=dict)

    def settings(self) -> dict[str, Any]:
        """Return what the page needs to draw, as plain data."""
        shown = {"edges": self.edges, "score": self.score, "labels": self.labels}
        return {"task": self.kind, **shown, "roles": dict(self.roles)}


def picture_settings(picture: PictureInput) -> dict[str, Any]:
    """Return the preprocessing of pictures as options of the player."""
    pixels = picture.pixels
    settings: dict[str, Any] = {"fit": pixels.fit, "fill": pixels.fill, "order": pixels.model_order}
    if pixels.model_order == "bgr" and isinstance(pixels.fill, tuple):
        settings["fill"] = pixels.fill[::-1]  # the player swaps channels of bars, too
    if picture.is_real or picture.quantization is not None:
        settings |= {"mean": pixels.mean, "std": pixels.std}
    return settings


def find_task(model: Model, title: str = "") -> Task:
    """Return the task for a model's inputs and outputs.

    Args:
        model: The model.
        title: Name of its file.
    """
    graph = model.main
    if not takes_picture(graph):
        return Task("numbers")
    described = describe_model(model, title)
    meaning = find_meaning(described)
    if meaning is not None and BOXES in meaning.kinds:
        return _boxes(model, described, meaning)
    outputs = [graph.types[name] for name in graph.results]
    return _single(model, outputs) or Task("numbers")


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
    return last in CHANNELS or first in (1, 3)


def _boxes(model: Model, described: DescribedModel, meaning: Meaning) -> Task:
    roles = detection_roles(described)
    if roles is not None:
        return Task("detections", score=DETECTION_SCORE, roles=roles)
    labels = _labels(described)
    if {info.name for info in described.outputs} >= _PROCESSED:
        return Task("boxes", labels=labels)
    option = meaning.postprocess
    if option is None:
        return Task("numbers")
    if isinstance(option, YoloBoxes):
        option = _yolo_option(model, option)
    return Task("boxes", option, labels=labels)


def _yolo_option(model: Model, option: YoloBoxes) -> YoloBoxes:
    """Return the option for boxes whose unit is unknown before the model runs.

    The page finds out whether they are pixels, which changes no overlap. Boxes of an export that
    decodes them itself are no offsets from cells.
    """
    if option.strides and not any(node.op == _LOGARITHMS for node in model.main.nodes):
        return option
    return replace(option, strides=(), normalized=True)


def _labels(model: DescribedModel) -> tuple[str, ...]:
    """Return the class labels of boxes, without the background."""
    own = next((info.labels for info in model.outputs if info.labels), ())
    labels = read_export_notes(model.metadata).names or own
    return labels[1:] if labels and labels[0] in BACKGROUNDS else labels


def _single(model: Model, outputs: list[TensorType]) -> Task | None:
    """Return the task of a model with one output, or None."""
    kind = outputs[0]
    shape = tuple(size for size in kind.shape if size != 1)
    if len(outputs) > 1 or not shape:
        return None
    if kind.rank == 4 and min(kind.shape[1:3]) >= MIN_SIDE_PIXELS:
        return _image(model, kind)
    if shape[-1] == KEY_POINT and len(shape) == 2:
        edges = BODY.edges if shape[0] == POINTS else ()
        return Task("keypoints", edges=edges, score=DEFAULT_SCORE)
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


def with_labels(task: Task, model: Model, labels: Sequence[str], title: str = "") -> Task:
    """Return the task with the caller's labels. Boxes have no label for the background, and neither
    have classes with one label less.

    Args:
        task: How outputs are drawn.
        model: The model, without postprocessing.
        labels: The labels.
        title: Name of the model's file.
    """
    if task.kind not in _LABELLED:
        what, why = "the labels cannot be shown", f"the page shows {task.kind}, which have none"
        raise InputError(what, why, f"leave them out, or pass --task {' or '.join(_LABELLED)}")
    check_labels(describe_model(model, title), labels)
    kind = model.main.types[model.main.results[0]]
    count = kind.channels if task.kind == "classmap" else math.prod(kind.shape)
    boxes = task.kind in ("boxes", "detections")
    if labels[0] in BACKGROUNDS and (boxes or len(labels) == count + 1):
        labels = labels[1:]
    return replace(task, labels=tuple(labels))


def check_task(kind: str, model: Model, default: Task) -> Task:
    """Return the task that a caller requested. Another task than the default uses raw outputs."""
    if kind == default.kind:
        return default
    if not takes_picture(model.main) and kind != "numbers":
        what = f"{kind} of {model.main.name} cannot be drawn"
        raise InputError(what, "its input is not a picture", "use --task numbers")
    return Task(kind, score=DEFAULT_SCORE)

"""SSD: models with TFLite_Detection_PostProcess, and raw outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from fourfold.support.lazy import lazy_import
from fourfold.types import Shape
from fourfold.vision.boxes import boxes_from_arrays, make_box
from fourfold.vision.class_names import COCO
from fourfold.vision.found import Found
from fourfold.vision.meaning import (
    BOXES,
    METADATA,
    SHAPES,
    Described,
    Meaning,
    PictureScaling,
    Reading,
)
from fourfold.vision.scores import are_fractions
from fourfold.vision.shapes import model_size

if TYPE_CHECKING:
    from fourfold import processing
    from fourfold.processing import SsdBoxes
    from fourfold.runtime.tensor_info import TensorInfo
    from fourfold.vision import picking
else:
    picking = lazy_import("fourfold.vision.picking")
    processing = lazy_import("fourfold.processing")

DEFAULT_SCORE = 0.4
DETECTIONS = 4  # outputs of a detector with built-in post-processing
_SCALING = PictureScaling(-1.0, 1.0)
# Names of classes and scores in TensorFlow exports: the end of the tensor's name.
_TITLES = {
    "classes": ("classes", "category", "TFLite_Detection_PostProcess:1"),
    "scores": ("scores", "score", "TFLite_Detection_PostProcess:2"),
}
_COCO_NAMES = ("coco", "ssd_mobilenet")  # TensorFlow published the latter for COCO
Roles = Mapping[str, str]  # output names by role


def picked_detections(model: Described) -> Meaning | None:
    """Identify boxes [1,N,4], classes and scores [1,N], and their count, in any order."""
    shapes = {info.name: info.shape for info in model.outputs}
    boxes = [name for name, shape in shapes.items() if len(shape) == 3 and shape[2] == 4]
    counts = [name for name, shape in shapes.items() if shape in ((1,), (), (1, 1))]
    if len(shapes) != DETECTIONS or len(boxes) != 1 or len(counts) != 1:
        return None
    rows = [info for info in model.outputs if info.shape == shapes[boxes[0]][:2]]
    if len(rows) != 2:
        return None
    roles = {"boxes": boxes[0], "count": counts[0], **_roles_from_names(rows)}
    told_by = METADATA if any(info.metadata for info in rows) else SHAPES
    labels = next((info.labels for info in rows if info.labels), ())
    names = tuple(info.name for info in rows)
    decode = partial(_decode_detections, roles, names, labels)
    family = "SSD with built-in post-processing"
    datasets = (COCO,) if _is_named_coco(model) else ()
    return Meaning(family, told_by, (BOXES,), tuple(shapes), decode, _SCALING, datasets=datasets)


def _is_named_coco(model: Described) -> bool:
    """Return whether the name of the file says that the detector is trained on COCO. Its outputs do
    not say how many classes it has.
    """
    name = getattr(model, "title", "").lower().replace("-", "_")
    return any(part in name for part in _COCO_NAMES)


def detection_roles(model: Described) -> Roles | None:
    """Return the outputs of a detector with built-in post-processing by role; None for others.

    Classes come before scores if their names do not say which is which, as in TensorFlow.
    """
    meaning = picked_detections(model)
    if meaning is None:
        return None
    boxes = next(info for info in model.outputs if len(info.shape) == 3)
    rows = [info for info in model.outputs if info.shape == boxes.shape[:2]]
    (count,) = (info for info in model.outputs if info is not boxes and info not in rows)
    named = _roles_from_names(rows) or {"classes": rows[0].name, "scores": rows[1].name}
    return {"boxes": boxes.name, "count": count.name, **named}


def _roles_from_names(rows: Sequence[TensorInfo]) -> Roles:
    """Return which output has classes and which has scores, if their names say so."""
    roles = {}
    for info in rows:
        titles = [info.name, *((info.metadata.name,) if info.metadata is not None else ())]
        for role, known in _TITLES.items():
            if any(title.lower().endswith(one.lower()) for title in titles for one in known):
                roles[role] = info.name
    return roles if len(set(roles.values())) == len(_TITLES) else {}


def _decode_detections(
    roles: Roles, rows: tuple[str, ...], own: tuple[str, ...], reading: Reading
) -> Found:
    numbers, note = {name: reading.numbers[name] for name in (*roles.values(), *rows)}, ""
    if "classes" not in roles:
        roles, note = {**roles, **_roles_from_values(rows, numbers)}, "identified by their values"
    count = int(numbers[roles["count"]].ravel()[0])
    boxes, classes, scores = (numbers[roles[one]][0] for one in ("boxes", "classes", "scores"))
    least = reading.least(DEFAULT_SCORE)
    kept = [row for row in range(min(count, len(scores))) if scores[row] >= least]
    labels = reading.object_labels(own, int(max((classes[row] for row in kept), default=0)))
    found = (make_box(boxes[row], float(scores[row]), int(classes[row]), labels) for row in kept)
    answer = Found(boxes=tuple(found))
    return answer.with_notes(f"classes and scores are {note}") if note else answer


def _roles_from_values(rows: tuple[str, ...], numbers: Mapping[str, np.ndarray]) -> Roles:
    """Take integers as classes and other numbers as scores."""
    first, second = rows
    integral = [bool(np.all(numbers[name] == np.rint(numbers[name]))) for name in rows]
    turned = integral[1] and not integral[0]
    return {"classes": second if turned else first, "scores": first if turned else second}


def boxes_and_scores(model: Described) -> tuple[TensorInfo, TensorInfo] | None:
    """Return the outputs [1,N,4] and [1,N,classes], or None if there are others."""
    outputs = model.outputs
    if len(outputs) != 2:
        return None
    boxes = [info for info in outputs if _four_columns(info.shape)]
    if len(boxes) == 2:  # four classes
        boxes = [info for info in outputs if "box" in info.name.lower()]
    if len(boxes) != 1:
        return None
    (scores,) = (info for info in outputs if info is not boxes[0])
    fits = len(scores.shape) == 3 and scores.shape[:2] == boxes[0].shape[:2]
    return (boxes[0], scores) if fits else None


def _four_columns(shape: Shape) -> bool:
    return shape[-1:] == (4,) and (len(shape) == 3 or (len(shape) == 4 and shape[2] == 1))


def raw_ssd(model: Described) -> Meaning | None:
    """Identify SSD MobileNet by its number of anchors for the model's picture."""
    pair, size = boxes_and_scores(model), model_size(model)
    if pair is None or size is None:
        return None
    boxes, scores = pair
    if len(processing.SsdAnchors().rows(size)) != boxes.shape[1] or scores.shape[2] < 2:
        return None
    option = processing.SsdBoxes(boxes=boxes.name, scores=scores.name, logistic=True, size=size)
    names = (boxes.name, scores.name)
    decode = partial(_decode_raw, option, scores)
    family = "SSD MobileNet with raw boxes"
    return Meaning(family, SHAPES, (BOXES,), names, decode, _SCALING, option, datasets=(COCO,))


def _decode_raw(option: SsdBoxes, scores: TensorInfo, reading: Reading) -> Found:
    numbers = {name: reading.numbers[name] for name in (option.boxes, option.scores)}
    logits = not are_fractions(numbers[option.scores])
    option = replace(option, logistic=logits)
    if reading.score is not None:
        option = replace(option, score=reading.score)
    labels = reading.class_labels(scores.shape[2] - 1, scores.labels)
    note = f"assumed {'logits' if logits else 'probabilities'}, from the range of the scores"
    return Found(boxes=boxes_from_arrays(picking.pick_boxes(option, numbers), labels)).with_notes(
        note
    )

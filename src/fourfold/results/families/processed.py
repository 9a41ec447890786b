"""Outputs of fourfold's own post-processing: boxes, the best classes, classes of pixels."""

from __future__ import annotations

from functools import partial

from fourfold.results.boxes import boxes_of
from fourfold.results.families.segmentation import class_map
from fourfold.results.found import ClassScore, Found, label_at
from fourfold.results.meaning import BOXES, CLASSES, NAMES, Described, Meaning, Reading
from fourfold.results.shapes import LEAST_SIDE
from fourfold.results.skeletons import FACE_BOX, PALM_BOX, POSE_BOX

_PARTS = ("boxes", "scores", "classes", "keypoints", "count")
_POINT_NAMES = {len(names): names for names in (FACE_BOX, PALM_BOX, POSE_BOX)}


def processed_outputs(model: Described) -> Meaning | None:
    shapes = {info.name: info.shape for info in model.outputs}
    boxes, scores, classes, _, count = (shapes.get(name) for name in _PARTS)
    own = next((info.labels for info in model.outputs if info.name == "classes"), ())
    if boxes is not None and scores is not None and boxes == (*scores, 4) and count == scores[:1]:
        wanted = tuple(name for name in _PARTS if name in shapes)
        family = "boxes of a post-processing"
        return Meaning(family, NAMES, (BOXES,), wanted, partial(_decode_boxes, wanted, own))
    if scores is not None and scores == classes and len(shapes) == 2 and len(scores) <= 2:
        family, decode = "the best classes of a post-processing", partial(_decode_classes, own)
        return Meaning(family, NAMES, (CLASSES,), ("scores", "classes"), decode)
    large = classes is not None and len(classes) == 3 and min(classes[1:]) >= LEAST_SIDE
    if large and len(shapes) == 1:
        return class_map("the classes of a post-processing", NAMES, model.outputs[0])
    return None


def _decode_boxes(wanted: tuple[str, ...], own: tuple[str, ...], reading: Reading) -> Found:
    found = {name: reading.numbers[name] for name in wanted}
    highest = int(found["classes"].max(initial=0)) if "classes" in found else 0
    points = found["keypoints"].shape[2] if "keypoints" in found else 0
    labels = reading.thing_labels(own, highest) if "classes" in found else ()
    boxes = boxes_of(found, labels, _POINT_NAMES.get(points, ()))
    return Found(boxes=tuple(one for one in boxes if one.score >= (reading.score or -1.0)))


def _decode_classes(own: tuple[str, ...], reading: Reading) -> Found:
    numbers = reading.numbers["classes"].ravel()[: reading.top].astype(int)
    scores = reading.numbers["scores"].ravel()
    labels = reading.value_labels(own, int(numbers.max(initial=0)))
    found = (
        ClassScore(int(number), label_at(labels, int(number)), float(score), "classes")
        for number, score in zip(numbers, scores, strict=False)
    )
    return Found(classes=tuple(found))

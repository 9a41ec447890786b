"""Outputs of fourfold's own post-processing: boxes, top classes, class maps."""

from __future__ import annotations

from functools import partial

from fourfold.vision.boxes import boxes_from_arrays
from fourfold.vision.families.segmentation import class_map
from fourfold.vision.found import ClassScore, Found, label_for
from fourfold.vision.meaning import BOXES, CLASSES, NAMES, Described, Meaning, Reading
from fourfold.vision.shapes import MIN_SIDE_PIXELS
from fourfold.vision.skeletons import FACE_BOX, PALM_BOX, POSE_BOX

_PARTS = ("boxes", "scores", "classes", "keypoints", "count")
_POINT_NAMES = {len(names): names for names in (FACE_BOX, PALM_BOX, POSE_BOX)}


def processed_outputs(model: Described) -> Meaning | None:
    """Identify the outputs of a session with `postprocess=` by their names and shapes."""
    shapes = {info.name: info.shape for info in model.outputs}
    boxes, scores, classes, _, count = (shapes.get(name) for name in _PARTS)
    own = next((info.labels for info in model.outputs if info.name == "classes"), ())
    if boxes is not None and scores is not None and boxes == (*scores, 4) and count == scores[:1]:
        names = tuple(name for name in _PARTS if name in shapes)
        family = "post-processed boxes"
        return Meaning(family, NAMES, (BOXES,), names, partial(_decode_boxes, names, own))
    if scores is not None and scores == classes and len(shapes) == 2 and len(scores) <= 2:
        family, decode = "post-processed top classes", partial(_decode_classes, own)
        return Meaning(family, NAMES, (CLASSES,), ("scores", "classes"), decode)
    large = classes is not None and len(classes) == 3 and min(classes[1:]) >= MIN_SIDE_PIXELS
    if large and len(shapes) == 1:
        return class_map("a post-processed class map", NAMES, model.outputs[0])
    return None


def _decode_boxes(names: tuple[str, ...], own: tuple[str, ...], reading: Reading) -> Found:
    arrays = {name: reading.numbers[name] for name in names}
    highest = int(arrays["classes"].max(initial=0)) if "classes" in arrays else 0
    points = arrays["keypoints"].shape[2] if "keypoints" in arrays else 0
    labels = reading.object_labels(own, highest) if "classes" in arrays else ()
    boxes = boxes_from_arrays(arrays, labels, _POINT_NAMES.get(points, ()))
    return Found(boxes=tuple(one for one in boxes if one.score >= (reading.score or -1.0)))


def _decode_classes(own: tuple[str, ...], reading: Reading) -> Found:
    numbers = reading.numbers["classes"].ravel()[: reading.top].astype(int)
    scores = reading.numbers["scores"].ravel()
    labels = reading.value_labels(own, int(numbers.max(initial=0)))
    classes = (
        ClassScore(int(number), label_for(labels, int(number)), float(score), "classes")
        for number, score in zip(numbers, scores, strict=False)
    )
    return Found(classes=tuple(classes))

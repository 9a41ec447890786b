"""MediaPipe models: face, palm and body detectors, and landmark models."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fourfold.support.lazy import lazy_import
from fourfold.vision.boxes import boxes_from_arrays
from fourfold.vision.found import Found, KeyPoint, KeyPoints, Mask, Size
from fourfold.vision.meaning import (
    BOXES,
    KEY_POINTS,
    MASKS,
    SHAPES,
    Described,
    Meaning,
    PictureScaling,
    Reading,
)
from fourfold.vision.scores import logistic
from fourfold.vision.shapes import model_size
from fourfold.vision.skeletons import (
    EYE,
    FACE,
    FACE_BOX,
    FACE_WITH_IRISES,
    HAND,
    IRIS,
    PALM_BOX,
    POSE,
    POSE_BOX,
    Skeleton,
)

if TYPE_CHECKING:
    from fourfold import processing
    from fourfold.processing import MediaPipeBoxes, anchors
    from fourfold.processing import boxes as decoders
    from fourfold.vision import picking
else:
    picking = lazy_import("fourfold.vision.picking")
    processing = lazy_import("fourfold.processing")
    anchors = lazy_import("fourfold.processing.anchors")
    decoders = lazy_import("fourfold.processing.boxes")

Names = tuple[str, ...]
# Detectors by the columns of their boxes (four, and two per key point): the detected object, the
# names of its points, the lowest pixel value, and the anchor layouts to try.
DETECTORS: dict[int, tuple[str, Names, float, Names]] = {
    16: ("face", FACE_BOX, -1.0, ("face", "face_back", "face_full_range")),
    18: ("palm", PALM_BOX, 0.0, ("hand",)),
    12: ("body", POSE_BOX, -1.0, ("pose",)),
}
LIKELY = 0.5


def mediapipe_detector(model: Described) -> Meaning | None:
    """Identify boxes [1,N,4 + 2 * points] and scores [1,N,1], one per anchor of the picture."""
    shapes, size = [info.shape for info in model.outputs], model_size(model)
    if len(shapes) != 2 or any(len(shape) != 3 for shape in shapes) or size is None:
        return None
    boxes, scores = sorted(model.outputs, key=lambda info: -info.shape[2])
    if scores.shape != (*boxes.shape[:2], 1) or boxes.shape[2] not in DETECTORS:
        return None
    thing, points, low, families = DETECTORS[boxes.shape[2]]
    for family in families:
        if len(anchors.cell_anchors(size, *decoders.FAMILIES[family])) == boxes.shape[1]:
            option = processing.MediaPipeBoxes(family=family, size=size)
            decode = partial(_decode_boxes, option, thing, points)
            scaling = PictureScaling(low, 1.0, "letterbox")
            names = (boxes.name, scores.name)
            title = f"MediaPipe's {thing} detector"
            return Meaning(title, SHAPES, (BOXES,), names, decode, scaling, option)
    return None


def _decode_boxes(option: MediaPipeBoxes, thing: str, points: Names, reading: Reading) -> Found:
    if reading.score is not None:
        option = replace(option, score=reading.score)
    outputs = picking.pick_boxes(option, reading.numbers)
    return Found(boxes=boxes_from_arrays(outputs, (thing,), points))


class Landmarks(NamedTuple):
    """An output with points in pixels of the model's picture, and the layout of its rows."""

    skeleton: Skeleton
    columns: int  # x, y, z, and more in some models
    score: int | None = None  # column of the visibility logit


class LandmarkModel(NamedTuple):
    """A landmark model, identified by the sizes of its outputs."""

    family: str
    sizes: tuple[int, ...]
    side: int
    points: dict[int, Landmarks]
    presence: int | None = None  # index of the presence output among outputs of one number
    logit: bool = False


LANDMARK_MODELS = (
    LandmarkModel("MediaPipe's face mesh", (1404, 1), 192, {1404: Landmarks(FACE, 3)}, 0, True),
    LandmarkModel(
        "MediaPipe's face mesh with irises",
        (1434, 1, 1),
        256,
        {1434: Landmarks(FACE_WITH_IRISES, 3)},
        0,
        True,
    ),
    LandmarkModel("MediaPipe's hand", (63, 1, 1, 63), 224, {63: Landmarks(HAND, 3)}, 0),
    LandmarkModel(
        "MediaPipe's pose",
        (195, 1, 128 * 128, 64 * 64 * 39, 117),
        256,
        {195: Landmarks(POSE, 5, 3)},
        0,
    ),
    LandmarkModel(
        "MediaPipe's iris", (213, 15), 64, {213: Landmarks(EYE, 3), 15: Landmarks(IRIS, 3)}
    ),
)


def mediapipe_landmarks(model: Described) -> Meaning | None:
    """Identify a landmark model by its input size and the sizes of its outputs."""
    size = model_size(model)
    sizes = sorted(int(np.prod(info.shape)) for info in model.outputs)
    for known in LANDMARK_MODELS:
        if size == (known.side, known.side) and sizes == sorted(known.sizes):
            masks = [info for info in model.outputs if info.shape[1:3] == (128, 128)]
            kinds = (KEY_POINTS, *((MASKS,) if masks else ()))
            outputs = tuple(info.name for info in model.outputs)
            decode = partial(_decode_points, known, size)
            scaling = PictureScaling(0.0, 1.0)
            return Meaning(known.family, SHAPES, kinds, outputs, decode, scaling)
    return None


def _decode_points(known: LandmarkModel, size: Size, reading: Reading) -> Found:
    arrays = list(reading.numbers.values())
    singles = [float(array.ravel()[0]) for array in arrays if array.size == 1]
    presence = None if known.presence is None else singles[known.presence]
    if presence is not None and known.logit:
        presence = float(logistic(np.array(presence)))
    key_points, left = [], dict(known.points)
    for array in arrays:
        if array.size in left:
            landmarks = left.pop(array.size)
            rows = array.reshape(-1, landmarks.columns)
            key_points.append(_points(landmarks, rows, size, presence))
    masks = [
        Mask((logistic(array[0, ..., 0]) > LIKELY).astype(np.int64), ("background", "person"))
        for array in arrays
        if array.shape[1:3] == (128, 128)
    ]
    answer = Found(key_points=tuple(key_points), masks=tuple(masks))
    if presence is not None and presence < (LIKELY if reading.score is None else reading.score):
        what = f"probably no object is present (score {presence:.2f})"
        return replace(answer, key_points=(), masks=()).with_notes(what, _CUT_OUT)
    return answer.with_notes(_CUT_OUT)


_CUT_OUT = "this model expects a crop around one object, as a detector finds it"


def _points(
    landmarks: Landmarks, rows: np.ndarray, size: Size, presence: float | None
) -> KeyPoints:
    names, edges = landmarks.skeleton.points, landmarks.skeleton.edges
    scores = [None] * len(names)
    if landmarks.score is not None:
        scores = [float(one) for one in logistic(rows[:, landmarks.score])]  # type: ignore[misc]
    points = tuple(
        KeyPoint(name, float(row[1] / size[0]), float(row[0] / size[1]), score)
        for name, row, score in zip(names, rows, scores, strict=False)
    )
    return KeyPoints(landmarks.skeleton.title, points, edges, presence, LIKELY)

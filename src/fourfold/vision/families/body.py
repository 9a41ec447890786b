"""MoveNet and PoseNet: 17 body key points."""

from __future__ import annotations

from functools import partial

import numpy as np

from fourfold.vision.found import Box, Found, KeyPoint, KeyPoints, Size
from fourfold.vision.meaning import (
    BOXES,
    KEY_POINTS,
    SHAPES,
    Described,
    Meaning,
    PictureScaling,
    Reading,
)
from fourfold.vision.scores import as_fractions
from fourfold.vision.shapes import model_size, squeezed
from fourfold.vision.skeletons import BODY

POINTS = len(BODY.points)
ROW = 3  # y, x and a score
DEFAULT_SCORE = 0.3
_SEVERAL = (6, 3 * POINTS + 5)  # bodies of MoveNet MultiPose: points, a box, its score
PERSON = "person"


def movenet(model: Described) -> Meaning | None:
    """Identify MoveNet: [1, 1, 17, 3] for one body, [1, 6, 56] for several, with y, x, score."""
    if len(model.outputs) != 1 or model_size(model) is None:
        return None
    (output,) = model.outputs
    shape = squeezed(output.shape)
    # The input takes pixel values from 0 to 255, as bytes or floats, and keeps the aspect ratio.
    scaling = PictureScaling(0.0, 255.0, "letterbox")
    if shape == _SEVERAL:
        family, decode = "MoveNet MultiPose", partial(_decode_several, output.name)
        return Meaning(family, SHAPES, (BOXES,), (output.name,), decode, scaling)
    if len(shape) == 2 and shape[1] == ROW and min(output.shape[1:3]) == 1:
        is_body = shape[0] == POINTS
        family = "MoveNet" if is_body else f"{shape[0]} points with scores"
        decode = partial(_decode_single, output.name)
        used_scaling = scaling if is_body else None
        return Meaning(family, SHAPES, (KEY_POINTS,), (output.name,), decode, used_scaling)
    return None


def _decode_single(output: str, reading: Reading) -> Found:
    points = body_points(reading.numbers[output].reshape(-1, ROW))
    return Found(key_points=(_body(points, reading),))


def body_points(rows: np.ndarray) -> tuple[KeyPoint, ...]:
    """Convert rows of y, x and score to key points."""
    names = BODY.points if len(rows) == POINTS else [f"point {n}" for n in range(len(rows))]
    pairs = zip(names, rows, strict=True)
    return tuple(KeyPoint(name, *(float(one) for one in row[:3])) for name, row in pairs)


def _body(points: tuple[KeyPoint, ...], reading: Reading) -> KeyPoints:
    least = reading.least(DEFAULT_SCORE)
    scores = [one.score or 0.0 for one in points]
    edges = BODY.edges if len(points) == POINTS else ()
    return KeyPoints(BODY.title, points, edges, float(np.mean(scores)), least)


def _decode_several(output: str, reading: Reading) -> Found:
    least = reading.least(DEFAULT_SCORE)
    boxes = []
    for row in reading.numbers[output].reshape(_SEVERAL):
        top, left, bottom, right, score = (float(one) for one in row[-5:])
        if score >= least:
            points = body_points(row[:-5].reshape(POINTS, ROW))
            boxes.append(Box(0, PERSON, score, (top, left, bottom, right), points, BODY.edges))
    return Found(boxes=tuple(boxes))


def posenet(model: Described) -> Meaning | None:
    """Identify PoseNet: heat maps [1,h,w,17] and offsets [1,h,w,34] of points from their cells."""
    size = model_size(model)
    maps = [info for info in model.outputs if len(info.shape) == 4]
    heat = [info for info in maps if info.shape[3] == POINTS]
    if size is None or len(heat) != 1:
        return None
    cells = heat[0].shape[:3]
    offsets = [info for info in maps if info.shape == (*cells, 2 * POINTS)]
    if len(offsets) != 1:
        return None
    names = tuple(info.name for info in model.outputs)
    decode = partial(_decode_heat, heat[0].name, offsets[0].name, size)
    scaling = PictureScaling(-1.0, 1.0)
    return Meaning("PoseNet", SHAPES, (KEY_POINTS,), names, decode, scaling)


def _decode_heat(heat: str, offsets: str, size: Size, reading: Reading) -> Found:
    """Place each point at its hottest cell, plus the offset of that cell."""
    scores, note = as_fractions(reading.numbers[heat][0])
    moves = reading.numbers[offsets][0]
    rows, columns, _ = scores.shape
    best = scores.reshape(-1, POINTS).argmax(0)
    y, x = np.divmod(best, columns)
    number = np.arange(POINTS)
    steps = [
        (side - 1) / max(cells - 1, 1) for side, cells in zip(size, (rows, columns), strict=True)
    ]
    down = y * steps[0] + moves[y, x, number]
    along = x * steps[1] + moves[y, x, number + POINTS]
    rows_yxs = np.stack([down / size[0], along / size[1], scores[y, x, number]], 1)
    what = "with several bodies, the points are the most visible ones"
    return Found(key_points=(_body(body_points(rows_yxs), reading),)).with_notes(note, what)

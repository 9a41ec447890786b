"""Detectors decoded in NumPy as typical application code does, for comparison in tests."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Detections(NamedTuple):
    """Detections of one image: corners (top, left, bottom, right), scores, classes, and box
    indices.
    """

    boxes: np.ndarray
    scores: np.ndarray
    classes: np.ndarray
    places: np.ndarray


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x.astype(np.float64)))


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    tall = min(a[2], b[2]) - max(a[0], b[0])
    wide = min(a[3], b[3]) - max(a[1], b[1])
    if tall <= 0 or wide <= 0:
        return 0.0
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return float(tall * wide / (sum(areas) - tall * wide))


def best_boxes(
    boxes: np.ndarray,
    table: np.ndarray,
    limits: tuple[float, float, int],
    by_class: bool,
) -> Detections:
    """Return boxes with their best class, best score first, without those that overlap a better
    one.
    """
    score, most_overlap, most = limits
    classes, scores = table.argmax(1), table.max(1)
    kept: list[int] = []
    for place in np.argsort(-scores, kind="stable"):
        if scores[place] < score or len(kept) == most:
            break
        rivals = [one for one in kept if not by_class or classes[one] == classes[place]]
        if all(overlap(boxes[one], boxes[place]) <= most_overlap for one in rivals):
            kept.append(int(place))
    indices = np.array(kept, int)
    return Detections(boxes[indices], scores[indices], classes[indices], indices)


def corners(centres: np.ndarray) -> np.ndarray:
    """Convert from y, x, height, width."""
    y, x, height, width = centres.T
    return np.stack([y - height / 2, x - width / 2, y + height / 2, x + width / 2], 1)


def ssd_corners(offsets: np.ndarray, anchors: np.ndarray) -> np.ndarray:
    y, x, height, width = anchors.T
    ty, tx, th, tw = (offsets / np.array((10, 10, 5, 5))).T
    centres = (ty * height + y, tx * width + x, np.exp(th) * height, np.exp(tw) * width)
    return corners(np.stack(centres, 1))


def mediapipe_rows(raw: np.ndarray, anchors: np.ndarray, size: int) -> np.ndarray:
    """Return corners and key points (y, x) of each cell's box."""
    middles = anchors[:, None, :2]
    points = raw.reshape(len(raw), -1, 2)[:, :, ::-1] / size
    boxes = np.concatenate([points[:, 0] + middles[:, 0], points[:, 1]], 1)
    rows = [corners(boxes), (points[:, 2:] + middles).reshape(len(raw), -1)]
    return np.concatenate(rows, 1)


def blended(
    rows: np.ndarray, scores: np.ndarray, limits: tuple[float, float, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Apply MediaPipe's weighted suppression: each box is the mean of the boxes that it
    replaces.
    """
    score, most_overlap, most = limits
    left = [int(one) for one in np.argsort(-scores, kind="stable") if scores[one] >= score]
    result, best = [], []
    while left and len(result) < most:
        first = left[0]
        mine = [one for one in left if overlap(rows[first, :4], rows[one, :4]) > most_overlap]
        mine = mine if first in mine else [first, *mine]
        result.append(np.average(rows[mine], 0, scores[mine]))
        best.append(scores[first])
        left = [one for one in left if one not in mine]
    return np.array(result).reshape(-1, rows.shape[1]), np.array(best)

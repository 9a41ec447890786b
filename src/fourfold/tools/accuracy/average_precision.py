"""Average precision of detected boxes, as COCO defines it.

Precision is interpolated at 101 recalls, for ten thresholds of the intersection over union (IoU),
with at most 100 detections per picture and category. A detection that only matches a crowd region
is neither right nor wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

IOU_THRESHOLDS = np.linspace(0.5, 0.95, 10)
RECALLS = np.linspace(0.0, 1.0, 101)
MAX_DETECTIONS = 100
_NEARLY_ONE = 1 - 1e-10  # an IoU of one may be rounded down


class PictureBoxes(NamedTuple):
    """The boxes of one category in one picture: left, top, width and height in pixels.

    Attributes:
        detections: Detected boxes, [detections, 4].
        scores: Scores of the detections.
        truths: Annotated boxes, [truths, 4].
        crowds: For each annotated box whether it is a region with a crowd of objects.
    """

    detections: np.ndarray
    scores: np.ndarray
    truths: np.ndarray
    crowds: np.ndarray


def average_precisions(pictures: Iterable[PictureBoxes]) -> np.ndarray | None:
    """Return the average precision of one category for each IoU threshold.

    None if no picture has an annotated object of the category, apart from crowds.
    """
    matches, crowds, scores, total = [], [], [], 0
    for boxes in pictures:
        order = np.argsort(-boxes.scores, kind="stable")[:MAX_DETECTIONS]
        boxes = boxes._replace(detections=boxes.detections[order], scores=boxes.scores[order])
        matched, in_crowd = match_boxes(boxes)
        matches.append(matched)
        crowds.append(in_crowd)
        scores.append(boxes.scores)
        total += int(np.count_nonzero(~boxes.crowds))
    if not total:
        return None
    order = np.argsort(-np.concatenate(scores), kind="stable")
    matched, ignored = np.concatenate(matches, 1)[:, order], np.concatenate(crowds, 1)[:, order]
    rows = zip(matched & ~ignored, ~matched & ~ignored, strict=True)
    return np.array([_area_under_curve(right, wrong, total) for right, wrong in rows])


def _area_under_curve(right: np.ndarray, wrong: np.ndarray, total: int) -> float:
    """Return the mean of the interpolated precision over all recalls."""
    hits, misses = np.cumsum(right), np.cumsum(wrong)
    precision = hits / np.maximum(hits + misses, 1)
    # The interpolated precision is the highest one at this recall or a higher one.
    best = np.maximum.accumulate(precision[::-1])[::-1]
    places = np.searchsorted(hits / total, RECALLS, side="left")
    return float(np.append(best, 0.0)[places].mean())


def match_boxes(boxes: PictureBoxes) -> tuple[np.ndarray, np.ndarray]:
    """Assign detections, best score first, to the annotated boxes that they overlap most.

    Returns two boolean arrays [thresholds, detections]: whether a detection matches any annotated
    box, and whether that is a crowd, which any number of detections may match.
    """
    overlaps = box_overlaps(boxes.detections, boxes.truths, boxes.crowds)
    shape = (len(IOU_THRESHOLDS), len(boxes.detections))
    matched, in_crowd = np.zeros(shape, bool), np.zeros(shape, bool)
    for row, threshold in enumerate(IOU_THRESHOLDS):
        free = ~boxes.crowds
        for column, overlap in enumerate(overlaps):
            near = overlap >= min(threshold, _NEARLY_ONE)
            for allowed, is_crowd in ((near & free, False), (near & boxes.crowds, True)):
                if allowed.any():
                    # COCO prefers the last of several equal overlaps.
                    best = len(overlap) - 1 - int(np.argmax(np.where(allowed, overlap, -1)[::-1]))
                    free[best] = False
                    matched[row, column], in_crowd[row, column] = True, is_crowd
                    break
    return matched, in_crowd


def box_overlaps(one: np.ndarray, others: np.ndarray, crowds: np.ndarray) -> np.ndarray:
    """Return the IoU of each pair of boxes, [one, others]; of a crowd, the share of the first box
    that lies inside it.
    """
    low = np.maximum(one[:, None, :2], others[None, :, :2])
    high = np.minimum(
        one[:, None, :2] + one[:, None, 2:], others[None, :, :2] + others[None, :, 2:]
    )
    shared = np.clip(high - low, 0, None).prod(2)
    areas, other_areas = one[:, 2:].prod(1)[:, None], others[:, 2:].prod(1)[None]
    whole = np.where(crowds[None], areas, areas + other_areas - shared)
    return np.asarray(np.divide(shared, whole, out=np.zeros_like(shared), where=whole > 0))

"""y = the best boxes that do not overlap: rows of top, left, bottom, right, class, score, 1.

Boxes are offsets from anchors (y, x, height, width). There is one score per class, preceded by the
background's if there is one more score than classes. Rows without a box are zeros.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.ops.base import Case, Op, Types
from fourfold.ops.base.rules import require, require_kind, require_rank, takes
from fourfold.ops.kernels.boxes import COLUMNS, corners_of, overlap_of
from fourfold.types import DType, TensorType


@dataclass(frozen=True)
class Detection:
    """Limits of the non-max suppression and scales of the offsets (y, x, height, width).

    `most` is the maximum number of boxes, `score` the minimum score, `overlap` the maximum overlap.
    `by_class` suppresses boxes within their class. Otherwise each box counts with its best classes.
    """

    most: int
    classes: int
    score: float
    overlap: float
    scales: tuple[float, float, float, float]
    classes_per_box: int = 1
    boxes_per_class: int = 100
    by_class: bool = False

    @property
    def rows(self) -> int:
        return self.most * self.classes_per_box


@takes("detection", 3)
def infer(
    attributes: Detection, boxes: TensorType, scores: TensorType, anchors: TensorType
) -> Types:
    op = "detection"
    require_kind(op, frozenset({DType.F32}), boxes, scores, anchors)
    require_rank(op, "the boxes", boxes, 3)
    require_rank(op, "the scores", scores, 3)
    count = boxes.shape[1]
    fits = boxes.shape == (1, count, boxes.channels) and boxes.channels >= 4
    require(fits, op, f"boxes are {boxes}, but must be [1,N,4]")
    require(scores.shape[:2] == (1, count), op, f"scores are {scores}, but boxes {boxes}")
    require(anchors.shape == (count, 4), op, f"anchors are {anchors}, but must be [{count},4]")
    valid = attributes.classes > 0 and scores.channels - attributes.classes in (0, 1)
    require(valid, op, f"{scores} do not match {attributes.classes} classes")
    limits = (attributes.most, attributes.classes_per_box, attributes.boxes_per_class)
    require(min(limits) > 0 and 0 not in attributes.scales, op, "its limits must be positive")
    return (TensorType(DType.F32, (attributes.rows, COLUMNS)),)


def reference(
    attributes: Detection, boxes: np.ndarray, scores: np.ndarray, anchors: np.ndarray
) -> np.ndarray:
    corners = corners_of(boxes[0, :, :4], anchors, attributes.scales)
    class_scores = scores[0, :, scores.shape[2] - attributes.classes :]
    select = _by_class if attributes.by_class else _by_box
    rows = select(attributes, corners, class_scores)
    y = np.zeros((attributes.rows, COLUMNS), np.float32)
    for number, (box, kind) in enumerate(rows[: attributes.rows]):
        y[number] = (*corners[box], kind, class_scores[box, kind], 1)
    return y


def _by_box(
    attributes: Detection, corners: np.ndarray, scores: np.ndarray
) -> list[tuple[int, int]]:
    """Suppress boxes by their best class; each kept box stands for its best classes."""
    count = min(attributes.classes_per_box, attributes.classes)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :count]
    best = scores[np.arange(len(scores)), order[:, 0]]
    kept = _suppress(attributes, corners, best, attributes.most)
    return [(box, int(kind)) for box in kept for kind in order[box]]


def _by_class(
    attributes: Detection, corners: np.ndarray, scores: np.ndarray
) -> list[tuple[int, int]]:
    """Suppress boxes within each class, then return the best of all classes."""
    candidates = [
        (box, kind)
        for kind in range(attributes.classes)
        for box in _suppress(attributes, corners, scores[:, kind], attributes.boxes_per_class)
    ]
    candidates.sort(key=lambda pair: -scores[pair])
    return candidates[: attributes.most]


def _suppress(
    attributes: Detection, corners: np.ndarray, scores: np.ndarray, limit: int
) -> list[int]:
    """Return boxes by descending score, without those that overlap a better one too much."""
    candidates = np.flatnonzero(scores >= attributes.score)
    order = candidates[np.argsort(-scores[candidates], kind="stable")]
    kept: list[int] = []
    while order.size and len(kept) < limit:
        first, order = int(order[0]), order[1:]
        kept.append(first)
        order = order[overlap_of(corners[first], corners[order]) <= attributes.overlap]
    return kept


_SCALES = (10.0, 10.0, 5.0, 5.0)

OP = Op(
    name="detection",
    attributes=Detection,
    infer=infer,
    reference=reference,
    heavy=True,
    cases=(
        Case(
            ("f32[1,29,4]", "f32[1,29,4]", "f32[29,4]"),
            Detection(7, 3, 0.3, 0.5, _SCALES),
            low=0,
            high=1,
        ),
        Case(
            ("f32[1,29,4]", "f32[1,29,5]", "f32[29,4]"),
            Detection(5, 5, 0.3, 0.5, _SCALES, classes_per_box=2),
            low=0,
            high=1,
        ),
        Case(
            ("f32[1,29,4]", "f32[1,29,4]", "f32[29,4]"),
            Detection(11, 3, 0.3, 0.5, _SCALES, by_class=True),
            low=0,
            high=1,
        ),
    ),
)

"""What ops on boxes share: where they are, and how much of them overlaps."""

from __future__ import annotations

import numpy as np

CORNERS = 4  # top, left, bottom, right
COLUMNS = CORNERS + 3  # and class, score, 1


def corners_of(boxes: np.ndarray, anchors: np.ndarray, scales: tuple[float, ...]) -> np.ndarray:
    """Top, left, bottom, right of each box."""
    parts = boxes / np.array(scales, np.float32)
    centers = parts[:, :2] * anchors[:, 2:] + anchors[:, :2]
    halves = np.float32(0.5) * np.exp(parts[:, 2:]) * anchors[:, 2:]
    return np.concatenate([centers - halves, centers + halves], axis=1)


def overlap_of(box: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The part of the union that two boxes share; nothing where one has no area."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    shared = np.prod(np.maximum(sides, 0), axis=1)
    area, areas = np.prod(box[2:] - box[:2]), np.prod(others[:, 2:] - others[:, :2], axis=1)
    union = area + areas - shared
    valid = (area > 0) & (areas > 0)
    return np.where(valid, shared / np.where(valid, union, 1), 0)

"""Box corners and the overlap of boxes, in NumPy and in kernels."""

from __future__ import annotations

import numpy as np

from fourfold.codegen.expression import Expression, maximum, minimum, where
from fourfold.codegen.kernel import Kernel

CORNERS = 4  # top, left, bottom, right
COLUMNS = CORNERS + 3  # the corners, then class, score and 1


def corners_of(boxes: np.ndarray, anchors: np.ndarray, scales: tuple[float, ...]) -> np.ndarray:
    """Decode offsets from anchors to top, left, bottom and right of each box."""
    parts = boxes / np.array(scales, np.float32)
    centers = parts[:, :2] * anchors[:, 2:] + anchors[:, :2]
    halves = np.float32(0.5) * np.exp(parts[:, 2:]) * anchors[:, 2:]
    return np.concatenate([centers - halves, centers + halves], axis=1)


def overlap_of(box: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return intersection over union with each other box; 0 where a box has no area."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    shared = np.prod(np.maximum(sides, 0), axis=1)
    area, areas = np.prod(box[2:] - box[:2]), np.prod(others[:, 2:] - others[:, :2], axis=1)
    union = area + areas - shared
    valid = (area > 0) & (areas > 0)
    return np.where(valid, shared / np.where(valid, union, 1), 0)


def kernel_overlap(kernel: Kernel, box: Expression, other: Expression) -> Expression:
    """Return intersection over union of two boxes of four lanes each, in a kernel."""
    tall, wide = (
        maximum(
            minimum(box.lane(n + 2), other.lane(n + 2)) - maximum(box.lane(n), other.lane(n)), 0.0
        )
        for n in (0, 1)
    )
    shared = kernel.let(tall * wide, "shared_area")
    area, areas = (
        kernel.let((b.lane(2) - b.lane(0)) * (b.lane(3) - b.lane(1)), "area") for b in (box, other)
    )
    valid = kernel.let((area > 0.0) & (areas > 0.0), "valid")
    union = where(valid, area + areas - shared, 1.0)
    return where(valid, shared / union, 0.0)

"""Oriented (rotated) boxes: non-maximum suppression and corners."""

from __future__ import annotations

import numpy as np

from fourfold.results.found import Box, KeyPoint, Size, label_at

# Columns of a row: center x, center y, width and height in pixels, then these; angle in radians.
SCORE, CLASS, ANGLE = 4, 5, 6
MAX_COMPARED_BOXES = 2000  # the comparison is quadratic
_CORNERS = ((1, 1), (1, -1), (-1, -1), (-1, 1))  # in units of half width and half height
_EDGES = ((0, 1), (1, 2), (2, 3), (3, 0))
_MIN_AREA_PIXELS = 1e-7  # avoids division by zero


def pick_oriented(rows: np.ndarray, overlap: float, most: int) -> np.ndarray:
    """Return the best rows, best first, without rows that a better one of their class overlaps."""
    rows = rows[np.argsort(-rows[:, SCORE], kind="stable")][:MAX_COMPARED_BOXES]
    same = rows[:, None, CLASS] == rows[None, :, CLASS]
    beaten = np.triu(same & (_overlaps(rows) > overlap), 1).any(0)
    return np.asarray(rows[~beaten][:most])


def _overlaps(rows: np.ndarray) -> np.ndarray:
    """Return the similarity of each pair of boxes, from 0 to 1.

    Boxes are treated as Gaussians with the same center and covariance and compared by Hellinger
    distance (probabilistic IoU), as oriented boxes are in training.
    """
    spread = _spreads(rows)
    mean = (spread[:, None] + spread[None]) / 2
    y, x = (rows[:, None, at] - rows[None, :, at] for at in (1, 0))
    wide, tall, both = (mean[..., at] for at in range(3))
    area = np.maximum(wide * tall - both**2, _MIN_AREA_PIXELS)
    apart = (tall * x**2 + wide * y**2 - 2 * both * x * y) / area / 8
    areas = np.sqrt(np.maximum(spread[:, 0] * spread[:, 1] - spread[:, 2] ** 2, _MIN_AREA_PIXELS))
    unlike = np.log(area / (areas[:, None] * areas[None])) / 2
    return np.asarray(1 - np.sqrt(1 - np.exp(-np.maximum(apart + unlike, 0))))


def _spreads(rows: np.ndarray) -> np.ndarray:
    """Return the variances along x and y, and the covariance, of a uniform distribution over each
    box.
    """
    wide, tall = rows[:, 2] ** 2 / 12, rows[:, 3] ** 2 / 12
    cos, sin = np.cos(rows[:, ANGLE]), np.sin(rows[:, ANGLE])
    parts = (
        wide * cos**2 + tall * sin**2,
        wide * sin**2 + tall * cos**2,
        (wide - tall) * cos * sin,
    )
    return np.stack(parts, 1)


def oriented_box(row: np.ndarray, size: Size, labels: tuple[str, ...]) -> Box:
    """Return the axis-aligned box around an oriented one, whose corners are its points."""
    x, y, wide, tall, score, number, angle = (float(one) for one in row)
    cos, sin = float(np.cos(angle)), float(np.sin(angle))
    halves = [(along * wide / 2, down * tall / 2) for along, down in _CORNERS]
    corners_yx = [
        ((y + right * sin + below * cos) / size[0], (x + right * cos - below * sin) / size[1])
        for right, below in halves
    ]
    points = tuple(KeyPoint(f"corner {n}", *corner) for n, corner in enumerate(corners_yx))
    rows, columns = zip(*corners_yx, strict=True)
    corners = (min(rows), min(columns), max(rows), max(columns))
    label = label_at(labels, int(number))
    return Box(int(number), label, score, corners, points, _EDGES, turned=True)

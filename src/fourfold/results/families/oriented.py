"""Boxes that are turned: which of those that overlap are the best, and their corners."""

from __future__ import annotations

import numpy as np

from fourfold.results.found import Box, KeyPoint, Size, label_at

# Columns of a row: the centre, width and height in pixels, then these; angles in radians.
SCORE, CLASS, ANGLE = 4, 5, 6
MOST_COMPARED = 2000  # each is compared with each
_CORNERS = ((1, 1), (1, -1), (-1, -1), (-1, 1))  # in halves of width and height
_EDGES = ((0, 1), (1, 2), (2, 3), (3, 0))
_NOTHING = 1e-7  # square pixels, so that nothing is divided by zero


def pick_oriented(rows: np.ndarray, overlap: float, most: int) -> np.ndarray:
    """The best rows, best first: a row goes where a better one of its class overlaps it more."""
    rows = rows[np.argsort(-rows[:, SCORE], kind="stable")][:MOST_COMPARED]
    same = rows[:, None, CLASS] == rows[None, :, CLASS]
    beaten = np.triu(same & (_overlaps(rows) > overlap), 1).any(0)
    return np.asarray(rows[~beaten][:most])


def _overlaps(rows: np.ndarray) -> np.ndarray:
    """How alike each two boxes are, from 0 to 1: boxes are taken as clouds with the same centre and
    spread, and compared by Hellinger's distance, as turned boxes are where they are trained.
    """
    spread = _spreads(rows)
    mean = (spread[:, None] + spread[None]) / 2
    y, x = (rows[:, None, at] - rows[None, :, at] for at in (1, 0))
    wide, tall, both = (mean[..., at] for at in range(3))
    area = np.maximum(wide * tall - both**2, _NOTHING)
    apart = (tall * x**2 + wide * y**2 - 2 * both * x * y) / area / 8
    areas = np.sqrt(np.maximum(spread[:, 0] * spread[:, 1] - spread[:, 2] ** 2, _NOTHING))
    unlike = np.log(area / (areas[:, None] * areas[None])) / 2
    return np.asarray(1 - np.sqrt(1 - np.exp(-np.maximum(apart + unlike, 0))))


def _spreads(rows: np.ndarray) -> np.ndarray:
    """Variances along x and y and what they have in common, of points spread over a box."""
    wide, tall = rows[:, 2] ** 2 / 12, rows[:, 3] ** 2 / 12
    cos, sin = np.cos(rows[:, ANGLE]), np.sin(rows[:, ANGLE])
    parts = (
        wide * cos**2 + tall * sin**2,
        wide * sin**2 + tall * cos**2,
        (wide - tall) * cos * sin,
    )
    return np.stack(parts, 1)


def oriented_box(row: np.ndarray, size: Size, labels: tuple[str, ...]) -> Box:
    """A box that holds all of the turned one, whose corners are its points."""
    x, y, wide, tall, score, number, angle = (float(one) for one in row)
    cos, sin = float(np.cos(angle)), float(np.sin(angle))
    halves = [(along * wide / 2, down * tall / 2) for along, down in _CORNERS]
    places = [
        ((y + right * sin + below * cos) / size[0], (x + right * cos - below * sin) / size[1])
        for right, below in halves
    ]
    points = tuple(KeyPoint(f"corner {n}", *place) for n, place in enumerate(places))
    rows, columns = zip(*places, strict=True)
    corners = (min(rows), min(columns), max(rows), max(columns))
    label = label_at(labels, int(number))
    return Box(int(number), label, score, corners, points, _EDGES, turned=True)

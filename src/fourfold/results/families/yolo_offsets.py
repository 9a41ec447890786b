"""Boxes that are offsets from their cells, as YOLOX exports them."""

from __future__ import annotations

import numpy as np

from fourfold.results.found import Size

NOTE = "assumed YOLOX: boxes are offsets from cells, and pixels go in from 0 to 255 in BGR order"
_MAX_LOG_SIZE = 20.0
_MIN_CORRELATION = 0.5  # of decoded box centers with their cells


def cell_places(size: Size, strides: tuple[int, ...]) -> np.ndarray:
    """Return column, row and side in pixels of each cell, row by row and grid by grid."""
    grids = []
    for stride in strides:
        rows, columns = np.indices((size[0] // stride, size[1] // stride)).reshape(2, -1)
        grids.append(np.stack([columns, rows, np.full_like(rows, stride)], 1))
    return np.concatenate(grids)


def are_offsets(centres: np.ndarray, cells: np.ndarray) -> bool:
    """Return True if the centers do not correlate with their cells, as decoded ones would."""
    used = centres.any(1)
    if used.mean() < 0.5:  # too many rows are empty to decide
        return False
    middles = (cells[:, :2] + 0.5) * cells[:, 2:]
    both = np.stack([centres[used], middles[used]])  # [2, cells, x and y]
    apart = both - both.mean(1, keepdims=True)
    spread = np.sqrt(np.square(apart).sum(1)).prod(0)
    return bool((apart.prod(0).sum(0) < _MIN_CORRELATION * spread).all())


def decode_offsets(boxes: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Return center and size in pixels: offsets are in cells, sizes are logarithms."""
    corners, sides = cells[:, :2], cells[:, 2:]
    sizes = np.exp(np.minimum(boxes[:, 2:], _MAX_LOG_SIZE))
    return np.concatenate([(boxes[:, :2] + corners) * sides, sizes * sides], 1)

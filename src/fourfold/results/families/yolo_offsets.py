"""Boxes that are offsets from their cells, as YOLOX's export leaves them."""

from __future__ import annotations

import numpy as np

from fourfold.results.found import Size

NOTE = (
    "boxes are offsets from their cells, as of YOLOX, which takes pixels from 0 to 255, blue first"
)
_LARGEST = 20.0  # of a logarithm
_FOLLOWS = 0.5  # how far centres go along with their cells at least, as a correlation


def cell_places(size: Size, strides: tuple[int, ...]) -> np.ndarray:
    """For each cell, row by row, grid by grid: its column, its row and its side in pixels."""
    found = []
    for stride in strides:
        rows, columns = np.indices((size[0] // stride, size[1] // stride)).reshape(2, -1)
        found.append(np.stack([columns, rows, np.full_like(rows, stride)], 1))
    return np.concatenate(found)


def are_offsets(centres: np.ndarray, cells: np.ndarray) -> bool:
    """Whether centres, x and y, do not lie where their cells do. Those of boxes that are decoded
    do, whatever their unit.
    """
    known = centres.any(1)
    if known.mean() < 0.5:  # nothing can be told of rows that are empty
        return False
    middles = (cells[:, :2] + 0.5) * cells[:, 2:]
    both = np.stack([centres[known], middles[known]])  # [2, cells, x and y]
    apart = both - both.mean(1, keepdims=True)
    spread = np.sqrt(np.square(apart).sum(1)).prod(0)
    return bool((apart.prod(0).sum(0) < _FOLLOWS * spread).all())


def decode_offsets(boxes: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Centre and size in pixels: offsets count in sides of cells, sizes are logarithms."""
    places, sides = cells[:, :2], cells[:, 2:]
    sizes = np.exp(np.minimum(boxes[:, 2:], _LARGEST))
    return np.concatenate([(boxes[:, :2] + places) * sides, sizes * sides], 1)

"""Anchors of detectors: rows of y, x, height and width, as fractions of the picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil, sqrt

import numpy as np

from fourfold.processing.checks import positive_numbers, require_number

Size = tuple[int, int]  # height and width
Shape = tuple[float, float]  # height and width of an anchor


@dataclass(frozen=True)
class SsdAnchors:
    """Anchors as the TensorFlow Object Detection API generates them.

    Each feature map has anchors of one scale with all `ratios`, and one square anchor between its
    scale and the next.

    Args:
        maps: Heights and widths of the feature maps, largest first. None starts at 1/16 of the
            picture and halves it, as SSD MobileNet does.
        min_scale: Scale of the first map.
        max_scale: Scale of the last map.
        ratios: Aspect ratios, width to height.
        reduced: Use only three anchors per cell in the first map.
    """

    maps: tuple[Size, ...] | None = None
    min_scale: float = 0.2
    max_scale: float = 0.95
    ratios: tuple[float, ...] = (1.0, 2.0, 0.5, 3.0, 0.3333)
    reduced: bool = True

    def __post_init__(self) -> None:
        require_number(self, "min_scale", 0, 1)
        require_number(self, "max_scale", 0, 1)
        ratios = positive_numbers(self, "ratios", self.ratios)
        object.__setattr__(self, "ratios", ratios)
        if self.maps is not None:
            maps = tuple(positive_numbers(self, "maps", one, 2) for one in self.maps)
            object.__setattr__(self, "maps", tuple((int(tall), int(wide)) for tall, wide in maps))

    def rows(self, size: Size) -> np.ndarray:
        """Return the anchors for a picture of this height and width."""
        maps = self.maps or tuple(_halved(size))
        last = max(len(maps) - 1, 1)
        steps = (self.max_scale - self.min_scale) / last
        scales = [*(self.min_scale + steps * number for number in range(len(maps))), 1.0]
        cells = [
            grid_anchors(grid, self._shapes(number, scales[number], scales[number + 1]))
            for number, grid in enumerate(maps)
        ]
        return np.concatenate(cells)

    def _shapes(self, number: int, scale: float, following: float) -> list[Shape]:
        sides = [(scale, ratio) for ratio in self.ratios] + [(sqrt(scale * following), 1.0)]
        if number == 0 and self.reduced:
            sides = [(0.1, 1.0), (scale, 2.0), (scale, 0.5)]
        return [(side / sqrt(ratio), side * sqrt(ratio)) for side, ratio in sides]


def _halved(size: Size, count: int = 6) -> Iterator[Size]:
    tall, wide = (ceil(side / 16) for side in size)
    for _ in range(count):
        yield tall, wide
        tall, wide = ceil(tall / 2), ceil(wide / 2)


def grid_anchors(grid: Size, shapes: Sequence[Shape]) -> np.ndarray:
    """Return anchors of all shapes around the center of each cell, row by row."""
    tall, wide = grid
    y, x = np.mgrid[:tall, :wide].astype(np.float32) + np.float32(0.5)
    centres = np.stack([y / np.float32(tall), x / np.float32(wide)], -1).reshape(-1, 1, 2)
    centres = np.broadcast_to(centres, (tall * wide, len(shapes), 2))
    sizes = np.broadcast_to(np.array(shapes, np.float32), (tall * wide, len(shapes), 2))
    return np.concatenate([centres, sizes], -1).reshape(-1, 4).astype(np.float32)


def corner_anchors(size: Size, strides: Sequence[int]) -> np.ndarray:
    """Return one anchor per cell, as large as the cell, at the cell's upper left corner (YOLOX)."""
    grids = []
    for stride in strides:
        y, x = np.indices((size[0] // stride, size[1] // stride)).reshape(2, -1) * stride
        sides = np.full_like(y, stride)
        grids.append(np.stack([y / size[0], x / size[1], sides / size[0], sides / size[1]], 1))
    return np.concatenate(grids).astype(np.float32)


def cell_anchors(size: Size, strides: Sequence[int], in_cell: int) -> np.ndarray:
    """Return MediaPipe anchors: as large as the picture, `in_cell` per cell for each layer.

    Consecutive layers with the same stride share a grid.
    """
    grids = []
    for stride, layers in groupby(strides):
        count = in_cell * len(list(layers))
        grid = (ceil(size[0] / stride), ceil(size[1] / stride))
        grids.append(grid_anchors(grid, [(1.0, 1.0)] * count))
    return np.concatenate(grids)

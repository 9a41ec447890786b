"""NumPy reference: crop and resize frames, and place them in the model's picture."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np

from fourfold.processing.pixels.colors import ReadPixels
from fourfold.processing.pixels.frame_fit import FrameFit
from fourfold.processing.resampling import ResizedAxis, Sampling, TapTable, area_table, tap_table

RESIZES = ("bilinear", "nearest", "area", "antialias")
_SAMPLINGS = {
    "antialias": Sampling("linear", exclude_outside=True, antialias=True),
    "bilinear": Sampling("linear"),
    "nearest": Sampling("nearest", rounding="round_prefer_ceil"),
}


def tap_tables(fit: FrameFit, resize: str) -> tuple[TapTable, TapTable]:
    """Return the source rows and columns of each pixel of the resized frame, with weights."""
    tables = []
    for axis in (0, 1):
        start, size, new_size = fit.box[axis], fit.box[2 + axis], fit.size[axis]
        if resize == "area":
            table = area_table(size, new_size)
        else:
            table = tap_table(_SAMPLINGS[resize], ResizedAxis(0, new_size, new_size / size), size)
        tables.append(replace(table, indices=table.indices + np.int32(start)))
    return tables[0], tables[1]


def resize_frames(
    read: ReadPixels, fit: FrameFit, resize: str, fill: tuple[float, ...]
) -> np.ndarray:
    """Return the picture [batch, height, width, channels] with values from 0 to 255.

    `fill` is the color of bars, one number per channel that is read.
    """
    rows, columns = tap_tables(fit, resize)
    total: np.ndarray | None = None
    for down, along in product(range(rows.weights.shape[1]), range(columns.weights.shape[1])):
        weights = rows.weights[:, down, None] * columns.weights[:, along]
        part = read(rows.indices[:, down], columns.indices[:, along])
        part *= weights[..., None]
        total = part if total is None else np.add(total, part, out=total)
    assert total is not None
    if not fit.bars:
        return total
    picture = np.empty((len(total), *fit.target, total.shape[-1]), np.float32)
    picture[:] = np.array(fill, np.float32)
    (top, left), (height, width) = fit.offset, fit.size
    picture[:, top : top + height, left : left + width] = total
    return picture

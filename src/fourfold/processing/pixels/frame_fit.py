"""FrameFit: where a frame lies in the model's input picture, and the inverse mapping.

The functions are the NumPy reference that crops, resizes and places frames.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from fourfold.errors import InputError, nearest
from fourfold.processing.pixels.colors import ReadPixels
from fourfold.processing.resampling import ResizedAxis, Sampling, TapTable, area_table, tap_table

FITS = ("stretch", "letterbox", "crop")
Size = tuple[int, int]  # height, width
Box = tuple[int, int, int, int]  # top, left, height, width
_BOX_ORDERS = {"ltrb": (0, 1, 2, 3), "tlbr": (1, 0, 3, 2)}  # indices of left, top, right, bottom


@dataclass(frozen=True)
class FrameFit:
    """Placement of a frame in the model's input picture.

    Attributes:
        box: Top, left, height and width of the used part of the frame.
        size: Height and width of that part after resizing.
        offset: Its top and left in the picture. Bars fill the space around it.
        target: Height and width of the picture.
    """

    box: Box
    size: Size
    offset: Size
    target: Size

    @property
    def scale(self) -> tuple[float, float]:
        """Vertical and horizontal scale from the frame to the picture."""
        return self.size[0] / self.box[2], self.size[1] / self.box[3]

    @property
    def bars(self) -> bool:
        """True if the frame does not cover the whole picture."""
        return self.size != self.target

    @property
    def is_identity(self) -> bool:
        """True if the picture is the unchanged frame."""
        return self.box == (0, 0, *self.target) and not self.bars

    def to_frame(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Convert pixel coordinates of the model's picture to pixels of the frame."""
        down, along = self.scale
        top, left = self.box[:2]
        return (x - self.offset[1]) / along + left, (y - self.offset[0]) / down + top

    def to_picture(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Convert pixel coordinates of the frame to pixels of the model's picture."""
        down, along = self.scale
        top, left = self.box[:2]
        return (x - left) * along + self.offset[1], (y - top) * down + self.offset[0]

    def boxes_to_frame(
        self, boxes: np.ndarray, order: str = "tlbr", normalized: bool = True
    ) -> np.ndarray:
        """Convert boxes [..., 4] of the model's picture to pixels of the frame.

        Args:
            boxes: Box coordinates.
            order: 'tlbr' (top, left, bottom, right) or 'ltrb'.
            normalized: Coordinates go from 0 to 1 over the picture, as in `fourfold.processing`.
        """
        if order not in _BOX_ORDERS:
            what, why = f"there is no box order {order!r}", "orders are ltrb and tlbr"
            raise InputError(what, why, nearest(order, _BOX_ORDERS))
        converted = np.array(boxes, np.float32)
        height, width = self.target if normalized else (1, 1)
        left, top, right, bottom = _BOX_ORDERS[order]
        for x, y in ((left, top), (right, bottom)):
            corner = self.to_frame(converted[..., x] * width, converted[..., y] * height)
            converted[..., x], converted[..., y] = corner
        return converted


def fit_frame(frame: Size, target: Size, fit: str, crop: Box | None = None) -> FrameFit:
    """Fit a frame, or its part `crop`, into a picture of `target` pixels."""
    box = crop or (0, 0, *frame)
    top, left, height, width = box
    if fit == "letterbox":
        scale = min(target[0] / height, target[1] / width)
        size = (max(1, round(height * scale)), max(1, round(width * scale)))
        offset = ((target[0] - size[0]) // 2, (target[1] - size[1]) // 2)
        return FrameFit(box, size, offset, target)
    if fit == "crop":
        scale = min(height / target[0], width / target[1])
        kept = (max(1, round(target[0] * scale)), max(1, round(target[1] * scale)))
        box = (top + (height - kept[0]) // 2, left + (width - kept[1]) // 2, *kept)
    return FrameFit(box, target, (0, 0), target)


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

"""FrameFit: where a frame lies in the picture that a model takes, and the way back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fourfold.errors import InputError, nearest

FITS = ("stretch", "letterbox", "crop")
Size = tuple[int, int]  # height, width
Box = tuple[int, int, int, int]  # top, left, height, width
_BOX_ORDERS = {"ltrb": (0, 1, 2, 3), "tlbr": (1, 0, 3, 2)}  # where left, top, right, bottom are


@dataclass(frozen=True)
class FrameFit:
    """The `box` (top, left, height, width) of a frame becomes `size` (height, width) pixels, which
    lie at `offset` (top, left) of a picture of `target` pixels. What is around them are bars.
    """

    box: Box
    size: Size
    offset: Size
    target: Size

    @property
    def scale(self) -> tuple[float, float]:
        """Pixels of the picture for one of the frame: down and along."""
        return self.size[0] / self.box[2], self.size[1] / self.box[3]

    @property
    def bars(self) -> bool:
        """Whether anything of the picture is not of the frame."""
        return self.size != self.target

    @property
    def changes_nothing(self) -> bool:
        """Whether the picture is the frame."""
        return self.box == (0, 0, *self.target) and not self.bars

    def to_frame(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Places in the model's picture, in its pixels, as places in the frame."""
        down, along = self.scale
        top, left = self.box[:2]
        return (x - self.offset[1]) / along + left, (y - self.offset[0]) / down + top

    def to_picture(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Places in the frame as places in the model's picture: `to_frame` the other way round."""
        down, along = self.scale
        top, left = self.box[:2]
        return (x - left) * along + self.offset[1], (y - top) * down + self.offset[0]

    def boxes_to_frame(
        self, boxes: np.ndarray, order: str = "tlbr", normalized: bool = True
    ) -> np.ndarray:
        """Boxes [..., 4] of the model's picture as boxes of the frame, in its pixels.

        `order` is 'tlbr' (top, left, bottom, right) or 'ltrb'. What is `normalized` goes from 0 to
        1 over the model's picture, as boxes of `fourfold.processing` do.
        """
        if order not in _BOX_ORDERS:
            what, why = f"there is no order {order!r} of boxes", "orders are ltrb and tlbr"
            raise InputError(what, why, nearest(order, _BOX_ORDERS))
        found = np.array(boxes, np.float32)
        height, width = self.target if normalized else (1, 1)
        left, top, right, bottom = _BOX_ORDERS[order]
        for x, y in ((left, top), (right, bottom)):
            corner = self.to_frame(found[..., x] * width, found[..., y] * height)
            found[..., x], found[..., y] = corner
        return found


def fit_frame(frame: Size, target: Size, fit: str, crop: Box | None = None) -> FrameFit:
    """How a frame, or the part `crop` of it, is made a picture of `target` pixels."""
    box = crop or (0, 0, *frame)
    top, left, height, width = box
    if fit == "letterbox":
        scale = min(target[0] / height, target[1] / width)
        size = (max(1, round(height * scale)), max(1, round(width * scale)))
        offset = ((target[0] - size[0]) // 2, (target[1] - size[1]) // 2)
        return FrameFit(box, size, offset, target)
    if fit == "crop":
        most = min(height / target[0], width / target[1])
        kept = (max(1, round(target[0] * most)), max(1, round(target[1] * most)))
        box = (top + (height - kept[0]) // 2, left + (width - kept[1]) // 2, *kept)
    return FrameFit(box, target, (0, 0), target)

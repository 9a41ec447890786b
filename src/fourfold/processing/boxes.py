"""Options that say how a detector's outputs are boxes, and which of these are wanted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np

from fourfold.errors import InputError
from fourfold.processing.anchors import Size, SsdAnchors
from fourfold.processing.checks import (
    checked_size,
    positive_numbers,
    require_name,
    require_number,
    require_whole,
)

ORDERS = {"tlbr": (0, 1, 2, 3), "ltrb": (1, 0, 3, 2), "yxhw": (0, 1, 2, 3), "xywh": (1, 0, 3, 2)}
HEADS = ("exponential", "square")
Rows = tuple[tuple[float, ...], ...]


class Family(NamedTuple):
    """How a detector of MediaPipe's lays its anchors: strides of its layers, and how many anchors
    each of them has in a cell.
    """

    strides: tuple[int, ...]
    in_cell: int


SSD_MOBILENET = SsdAnchors()
FAMILIES = {
    "face": Family((8, 16, 16, 16), 2),
    "face_back": Family((16, 32, 32, 32), 2),  # of the camera at the back of a phone
    "face_full_range": Family((4,), 1),
    "hand": Family((8, 16, 16, 16), 2),
    "pose": Family((8, 16, 32, 32, 32), 2),
}


@dataclass(frozen=True)
class Picking:
    """What all boxes have: at least which `score`, how much two may `overlap` (the part of their
    union that they share), at `most` how many, whether they compete `by_class` only, and the `size`
    (height, width) of the picture that they are in, by default the model's input.
    """

    score: float = 0.25
    overlap: float = 0.45
    most: int = 100
    by_class: bool = True
    size: Size | None = None

    def __post_init__(self) -> None:
        require_number(self, "score")
        require_number(self, "overlap", 0, 1)
        require_whole(self, "most", 1)
        object.__setattr__(self, "size", checked_size(self, self.size))


@dataclass(frozen=True)
class YoloBoxes(Picking):
    """YOLO's own boxes: one output [batch, N, 5 + classes], as of v5 to v7, whose fifth column says
    whether there is anything, or [batch, 4 + classes, N], as of v8 and later.

    Columns behind `classes` many, where that is given, come along as `extras`: coefficients of a
    mask, key points. `objectness` says whether there is a fifth column, where the shape does not.
    `normalized` boxes are fractions of the picture already, as in Ultralytics' TFLite files;
    else they are pixels of a picture of `size` (height, width), by default the model's input.
    """

    classes: int | None = None
    objectness: bool | None = None
    normalized: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.classes is not None:
            require_whole(self, "classes", 1)


@dataclass(frozen=True)
class YoloHeads(Picking):
    """Heads of a YOLO whose boxes are not decoded: an output for each grid, with 5 + classes
    numbers for each of a cell's anchors, channels first or last.

    `anchors` are those of each head, finest grid first, each as width, height, width, height...
    in pixels of a picture of `size` (height, width), by default the model's input. `form` is how
    sizes are meant: 'exponential' (v3, v4) or 'square' (v5, v7).
    """

    anchors: Rows = ()
    form: str = "exponential"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_name(self, "form", HEADS)
        rows = tuple(positive_numbers(self, "anchors", one) for one in self.anchors)
        sizes = {len(one) for one in rows}
        if len(sizes) != 1 or next(iter(sizes)) % 2 or 0 in sizes:
            raise InputError(
                f"anchors of YoloHeads are {self.anchors!r}",
                "each head has the same number of pairs of width and height",
                "pass them as ((10, 13, 16, 30, 33, 23), ...), the finest grid first",
            )
        object.__setattr__(self, "anchors", rows)


@dataclass(frozen=True)
class DecodedBoxes(Picking):
    """For models that decode boxes by themselves: an output [batch, N, 4] and one
    [batch, N, classes]. `boxes` and `scores` are their names, where shapes do not tell them apart.

    `order` is what the four numbers are: 'ltrb', 'tlbr' (corners), 'xywh' or 'yxhw' (centre and
    size). `background` is whether the first class means nothing. Without `normalized` boxes are
    pixels of a picture of `size` (height, width), by default the model's input.
    """

    order: str = "ltrb"
    background: bool = False
    normalized: bool = True
    boxes: str = ""
    scores: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_name(self, "order", tuple(ORDERS))


@dataclass(frozen=True)
class SsdBoxes(Picking):
    """SSD: outputs [batch, N, 4], offsets from anchors, and [batch, N, classes]. `boxes` and
    `scores` are their names, where shapes do not tell them apart.

    `anchors` are rows of y, x, height and width, or `SsdAnchors` that make them; by default those
    of SSD MobileNet for the model's input. Offsets are divided by `scales` (y, x, height, width).
    `background` is whether the first class means nothing, `logistic` whether scores are logits.
    """

    score: float = 0.3
    overlap: float = 0.6
    by_class: bool = False
    anchors: SsdAnchors | Rows = SSD_MOBILENET
    scales: tuple[float, ...] = (10.0, 10.0, 5.0, 5.0)
    background: bool = True
    logistic: bool = False
    boxes: str = ""
    scores: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "scales", positive_numbers(self, "scales", self.scales, 4))
        if not isinstance(self.anchors, SsdAnchors):
            object.__setattr__(self, "anchors", _anchor_rows(self.anchors))


def _anchor_rows(given: Sequence[Sequence[float]]) -> Rows:
    try:
        rows = np.asarray(given, np.float32)
    except (TypeError, ValueError):
        rows = np.zeros(0, np.float32)
    if rows.ndim != 2 or rows.shape[1] != 4 or not np.isfinite(rows).all():
        raise InputError(
            f"anchors of SsdBoxes are an array of shape {list(rows.shape)}",
            "each is y, x, height and width",
            "pass rows of four numbers, or processing.SsdAnchors(...)",
        )
    return cast(Rows, tuple(map(tuple, rows.tolist())))


@dataclass(frozen=True)
class MediaPipeBoxes(Picking):
    """MediaPipe's detectors: outputs [batch, N, 4 + 2 * key points] and [batch, N, 1]. `family` is
    'face', 'face_back', 'face_full_range', 'hand' or 'pose', from which anchors follow.

    `keypoints` f32[batch,most,K,2] come along, y and x as fractions of the picture. With `blend`
    each box is the mean of those that it stands for, weighted by their scores, as MediaPipe has it.
    """

    score: float = 0.5
    overlap: float = 0.3
    most: int = 20
    by_class: bool = False
    family: str = "face"
    blend: bool = True
    boxes: str = ""
    scores: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_name(self, "family", tuple(FAMILIES))

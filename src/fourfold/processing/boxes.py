"""Options for detectors: how outputs encode boxes, and which boxes to return."""

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
    require_integer,
    require_name,
    require_number,
)

ORDERS = {"tlbr": (0, 1, 2, 3), "ltrb": (1, 0, 3, 2), "yxhw": (0, 1, 2, 3), "xywh": (1, 0, 3, 2)}
HEADS = ("exponential", "square")
Rows = tuple[tuple[float, ...], ...]


class Family(NamedTuple):
    """Anchor layout of a MediaPipe detector: strides of its layers, and anchors per cell of
    each.
    """

    strides: tuple[int, ...]
    in_cell: int


SSD_MOBILENET = SsdAnchors()
FAMILIES = {
    "face": Family((8, 16, 16, 16), 2),
    "face_back": Family((16, 32, 32, 32), 2),  # for the back camera of a phone
    "face_full_range": Family((4,), 1),
    "hand": Family((8, 16, 16, 16), 2),
    "pose": Family((8, 16, 32, 32, 32), 2),
}


@dataclass(frozen=True)
class Picking:
    """Options that all detectors share.

    Args:
        score: Minimum score of a box.
        overlap: Maximum intersection over union of two boxes that are both returned.
        most: Maximum number of boxes.
        by_class: Suppress only boxes of the same class.
        size: Height and width of the picture that boxes refer to; by default the model's input.
    """

    score: float = 0.25
    overlap: float = 0.45
    most: int = 100
    by_class: bool = True
    size: Size | None = None

    def __post_init__(self) -> None:
        require_number(self, "score")
        require_number(self, "overlap", 0, 1)
        require_integer(self, "most", 1)
        object.__setattr__(self, "size", checked_size(self, self.size))


@dataclass(frozen=True)
class YoloBoxes(Picking):
    """Decoded YOLO boxes: [batch, N, 5 + classes] (v5 to v7) or [batch, 4 + classes, N] (v8 and
    later).

    The fifth column of v5 to v7 is the objectness. Columns after the classes (mask coefficients,
    key points) are returned as `extras`.

    Args:
        score: Minimum score of a box.
        overlap: Maximum intersection over union of two boxes that are both returned.
        most: Maximum number of boxes.
        by_class: Suppress only boxes of the same class.
        size: Height and width of the picture that boxes refer to; by default the model's input.
        classes: Number of classes; by default all columns after the box.
        objectness: True if the fifth column is the objectness; by default the shape decides.
        normalized: Boxes are fractions of the picture, as in Ultralytics' TFLite files. Otherwise
            they are pixels.
        strides: Strides of the grids, the finest first, if boxes are offsets from their cells and
            sizes are logarithms, as in YOLOX: (8, 16, 32).
    """

    classes: int | None = None
    objectness: bool | None = None
    normalized: bool = False
    strides: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.classes is not None:
            require_integer(self, "classes", 1)
        if self.strides:
            strides = positive_numbers(self, "strides", self.strides)
            object.__setattr__(self, "strides", tuple(int(one) for one in strides))


@dataclass(frozen=True)
class YoloHeads(Picking):
    """Raw YOLO heads: one output per grid, with 5 + classes numbers per anchor, NCHW or NHWC.

    Args:
        score: Minimum score of a box.
        overlap: Maximum intersection over union of two boxes that are both returned.
        most: Maximum number of boxes.
        by_class: Suppress only boxes of the same class.
        size: Height and width of the picture that boxes refer to; by default the model's input.
        anchors: For each head, finest grid first: width, height, width, height, ... in pixels.
        form: Encoding of box sizes: 'exponential' (v3, v4) or 'square' (v5, v7).
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
                "all heads must have the same number of (width, height) pairs",
                "pass them as ((10, 13, 16, 30, 33, 23), ...), the finest grid first",
            )
        object.__setattr__(self, "anchors", rows)


@dataclass(frozen=True)
class DecodedBoxes(Picking):
    """Boxes of a model that decodes them itself: outputs [batch, N, 4] and [batch, N, classes].

    Args:
        score: Minimum score of a box.
        overlap: Maximum intersection over union of two boxes that are both returned.
        most: Maximum number of boxes.
        by_class: Suppress only boxes of the same class.
        size: Height and width of the picture that boxes refer to; by default the model's input.
        order: Meaning of the four numbers: 'ltrb' or 'tlbr' (corners), 'xywh' or 'yxhw' (center and
            size).
        background: The first class is the background.
        normalized: Boxes are fractions of the picture. Otherwise they are pixels.
        boxes: Name of the output with boxes, if shapes are ambiguous.
        scores: Name of the output with scores, if shapes are ambiguous.
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
    """Raw SSD boxes: outputs [batch, N, 4] with offsets from anchors and [batch, N, classes].

    Args:
        score: Minimum score of a box.
        overlap: Maximum intersection over union of two boxes that are both returned.
        most: Maximum number of boxes.
        by_class: Suppress only boxes of the same class.
        size: Height and width of the picture that boxes refer to; by default the model's input.
        anchors: Rows of y, x, height and width, or `SsdAnchors`; by default those of SSD MobileNet.
        scales: Divisors of the offsets: y, x, height, width.
        background: The first class is the background.
        logistic: Scores are logits.
        boxes: Name of the output with boxes, if shapes are ambiguous.
        scores: Name of the output with scores, if shapes are ambiguous.
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


def _anchor_rows(anchors: Sequence[Sequence[float]]) -> Rows:
    try:
        rows = np.asarray(anchors, np.float32)
    except (TypeError, ValueError):
        rows = np.zeros(0, np.float32)
    if rows.ndim != 2 or rows.shape[1] != 4 or not np.isfinite(rows).all():
        raise InputError(
            f"anchors of SsdBoxes are an array of shape {list(rows.shape)}",
            "each anchor is y, x, height and width",
            "pass rows of four numbers, or processing.SsdAnchors(...)",
        )
    return cast(Rows, tuple(map(tuple, rows.tolist())))


@dataclass(frozen=True)
class MediaPipeBoxes(Picking):
    """MediaPipe detectors: outputs [batch, N, 4 + 2 * key points] and [batch, N, 1].

    Key points are returned as `keypoints` f32[batch,most,K,2]: y and x as fractions of the picture.

    Args:
        score: Minimum score of a box.
        overlap: Maximum intersection over union of two boxes that are both returned.
        most: Maximum number of boxes.
        by_class: Suppress only boxes of the same class.
        size: Height and width of the picture that boxes refer to; by default the model's input.
        family: 'face', 'face_back', 'face_full_range', 'hand' or 'pose', which selects the anchors.
        blend: Average each box with those it suppresses, weighted by score, as MediaPipe does.
        boxes: Name of the output with boxes, if shapes are ambiguous.
        scores: Name of the output with scores, if shapes are ambiguous.
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

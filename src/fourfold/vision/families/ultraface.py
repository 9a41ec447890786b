"""UltraFace: a face detector whose boxes are decoded, or relative to its anchors."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from fourfold.support.lazy import lazy_import
from fourfold.vision.boxes import boxes_from_arrays
from fourfold.vision.families.ssd import boxes_and_scores
from fourfold.vision.found import Found, Size
from fourfold.vision.meaning import BOXES, SHAPES, Described, Meaning, PictureScaling, Reading
from fourfold.vision.shapes import model_size

if TYPE_CHECKING:
    from fourfold import processing
    from fourfold.processing import DecodedBoxes, SsdBoxes
    from fourfold.processing import anchors as priors
    from fourfold.vision import picking
else:
    picking = lazy_import("fourfold.vision.picking")
    processing = lazy_import("fourfold.processing")
    priors = lazy_import("fourfold.processing.anchors")

# Sides of anchors in pixels, by stride.
SIDES = {8: (10, 16, 24), 16: (32, 48), 32: (64, 96), 64: (128, 192, 256)}
DEFAULT_SCORE, OVERLAP = 0.7, 0.3
_SCALING = PictureScaling(-127 / 128, 1.0)
_YXHW = [1, 0, 3, 2]  # columns that turn x, y, width, height into y, x, height, width


def ultraface(model: Described) -> Meaning | None:
    """Identify UltraFace by its number of anchors for the model's picture."""
    pair, size = boxes_and_scores(model), model_size(model)
    if pair is None or size is None:
        return None
    boxes, scores = pair
    if scores.shape[2] != 2 or len(ultraface_anchors(size)) != boxes.shape[1]:
        return None
    names = (boxes.name, scores.name)
    decode = partial(_decode, size, *names)
    return Meaning("UltraFace", SHAPES, (BOXES,), names, decode, _SCALING)


def ultraface_anchors(size: Size) -> np.ndarray:
    """Return rows of y, x, height and width, as fractions of the picture."""
    cells = [
        priors.grid_anchors(
            (ceil(size[0] / stride), ceil(size[1] / stride)),
            [(side / size[0], side / size[1]) for side in sides],
        )
        for stride, sides in SIDES.items()
    ]
    return np.concatenate(cells).clip(0, 1)


def _decode(size: Size, boxes: str, scores: str, reading: Reading) -> Found:
    """Decode boxes. Decoded corners are ordered; offsets from anchors are not."""
    numbers = {name: reading.numbers[name] for name in (boxes, scores)}
    coordinates = numbers[boxes]
    decoded = float(np.mean(coordinates[..., 2:] > coordinates[..., :2])) > 0.99
    names = {"boxes": boxes, "scores": scores, "score": DEFAULT_SCORE, "overlap": OVERLAP}
    option: DecodedBoxes | SsdBoxes
    if decoded:
        option = processing.DecodedBoxes(background=True, **names)  # type: ignore[arg-type]
    else:
        anchors = ultraface_anchors(size)
        option = processing.SsdBoxes(anchors=anchors, **names)  # type: ignore[arg-type]
        numbers[boxes] = coordinates.reshape(*coordinates.shape[:2], 4)[..., _YXHW]
    if reading.score is not None:
        option = replace(option, score=reading.score)
    form = "decoded" if decoded else "relative to anchors"
    note = f"assumed boxes that are {form}, from their values"
    return Found(
        boxes=boxes_from_arrays(picking.pick_boxes(option, numbers), ("face",))
    ).with_notes(note)

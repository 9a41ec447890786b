"""FastestDet: one grid with a box per cell; objectness first, classes last."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from fourfold.support.lazy import lazy_import
from fourfold.vision.boxes import boxes_from_arrays
from fourfold.vision.class_names import COCO
from fourfold.vision.found import Found
from fourfold.vision.meaning import BOXES, SHAPES, Described, Meaning, PictureScaling, Reading
from fourfold.vision.scores import logistic
from fourfold.vision.shapes import model_size

if TYPE_CHECKING:
    from fourfold import processing
    from fourfold.vision import picking
else:
    picking = lazy_import("fourfold.vision.picking")
    processing = lazy_import("fourfold.processing")

STRIDE = 16
FIRST_CLASS = 5  # after objectness and four columns of the box
DEFAULT_SCORE = 0.65
_SCALING = PictureScaling(0.0, 1.0, order="bgr")


def fastestdet(model: Described) -> Meaning | None:
    """Identify a single output [1, 5 + classes, h / 16, w / 16]."""
    size = model_size(model)
    if size is None or len(model.outputs) != 1:
        return None
    (output,) = model.outputs
    shape = output.shape
    grid = (size[0] // STRIDE, size[1] // STRIDE)
    if len(shape) != 4 or shape[2:] != grid or not FIRST_CLASS < shape[1] < size[0]:
        return None
    decode = partial(_decode, output.name)
    names = (output.name,)
    return Meaning("FastestDet", SHAPES, (BOXES,), names, decode, _SCALING, datasets=(COCO,))


def _decode(name: str, reading: Reading) -> Found:
    numbers = reading.numbers[name][0]
    columns, tall, wide = numbers.shape
    y, x = np.indices((tall, wide))
    across, down, width, height = numbers[1:FIRST_CLASS]
    boxes = [(y + np.tanh(down)) / tall, (x + np.tanh(across)) / wide]
    boxes += [logistic(height), logistic(width)]
    # The score is a geometric mean of objectness and class score, weighted 0.6 to 0.4.
    scores = numbers[0].clip(0) ** 0.6 * numbers[FIRST_CLASS:].clip(0) ** 0.4
    outputs = {
        "boxes": np.stack(boxes, -1).reshape(1, -1, 4),
        "scores": scores.reshape(columns - FIRST_CLASS, -1).T[None],
    }
    least = reading.least(DEFAULT_SCORE)
    option = processing.DecodedBoxes(least, order="yxhw", boxes="boxes", scores="scores")
    labels = reading.class_labels(columns - FIRST_CLASS)
    return Found(boxes=boxes_from_arrays(picking.pick_boxes(option, outputs), labels))

"""YOLO: decoded boxes of v5 and later, oriented boxes, YOLOX, and exports with suppression."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fourfold.support.lazy import lazy_import
from fourfold.vision.boxes import boxes_from_arrays, make_box
from fourfold.vision.class_names import COCO
from fourfold.vision.families.body import PERSON, POINTS
from fourfold.vision.families.yolo_columns import (
    BOX,
    COEFFICIENTS,
    PICKED,
    Extras,
    YoloColumns,
    cell_columns,
    find_extras,
    mix_masks,
    with_points,
)
from fourfold.vision.found import Box, Found, KeyPoint, Mask, Size, label_for
from fourfold.vision.meaning import (
    BOXES,
    MASKS,
    SHAPES,
    Decode,
    Described,
    Meaning,
    PictureScaling,
    Reading,
)
from fourfold.vision.shapes import model_size
from fourfold.vision.ultralytics import read_export_notes

if TYPE_CHECKING:
    from fourfold import processing
    from fourfold.processing import YoloBoxes
    from fourfold.runtime.tensor_info import TensorInfo
    from fourfold.vision import picking
else:
    picking = lazy_import("fourfold.vision.picking")
    processing = lazy_import("fourfold.processing")


NOTE = "assumed boxes that are offsets from cells, from their values"
_MIN_CORRELATION = 0.5  # of decoded box centers with their cells


def cell_grid(size: Size, strides: tuple[int, ...]) -> np.ndarray:
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
    return bool((apart.prod(0).sum(0) <= _MIN_CORRELATION * spread).all())


# Columns of a row: center x, center y, width and height in pixels, then these; angle in radians.
SCORE, CLASS, ANGLE = 4, 5, 6
MAX_COMPARED_BOXES = 2000  # the comparison is quadratic
_CORNERS = ((1, 1), (1, -1), (-1, -1), (-1, 1))  # in units of half width and half height
_EDGES = ((0, 1), (1, 2), (2, 3), (3, 0))
_MIN_AREA_PIXELS = 1e-7  # avoids division by zero


def pick_oriented(rows: np.ndarray, overlap: float, most: int) -> np.ndarray:
    """Return the best rows, best first, without rows that a better one of their class overlaps."""
    rows = rows[np.argsort(-rows[:, SCORE], kind="stable")][:MAX_COMPARED_BOXES]
    same = rows[:, None, CLASS] == rows[None, :, CLASS]
    beaten = np.triu(same & (_overlaps(rows) > overlap), 1).any(0)
    return np.asarray(rows[~beaten][:most])


def _overlaps(rows: np.ndarray) -> np.ndarray:
    """Return the similarity of each pair of boxes, from 0 to 1.

    Boxes are treated as Gaussians with the same center and covariance and compared by Hellinger
    distance (probabilistic IoU), as oriented boxes are in training.
    """
    spread = _spreads(rows)
    mean = (spread[:, None] + spread[None]) / 2
    y, x = (rows[:, None, at] - rows[None, :, at] for at in (1, 0))
    wide, tall, both = (mean[..., at] for at in range(3))
    area = np.maximum(wide * tall - both**2, _MIN_AREA_PIXELS)
    apart = (tall * x**2 + wide * y**2 - 2 * both * x * y) / area / 8
    areas = np.sqrt(np.maximum(spread[:, 0] * spread[:, 1] - spread[:, 2] ** 2, _MIN_AREA_PIXELS))
    unlike = np.log(area / (areas[:, None] * areas[None])) / 2
    return np.asarray(1 - np.sqrt(1 - np.exp(-np.maximum(apart + unlike, 0))))


def _spreads(rows: np.ndarray) -> np.ndarray:
    """Return the variances along x and y, and the covariance, of a uniform distribution over each
    box.
    """
    wide, tall = rows[:, 2] ** 2 / 12, rows[:, 3] ** 2 / 12
    cos, sin = np.cos(rows[:, ANGLE]), np.sin(rows[:, ANGLE])
    parts = (
        wide * cos**2 + tall * sin**2,
        wide * sin**2 + tall * cos**2,
        (wide - tall) * cos * sin,
    )
    return np.stack(parts, 1)


def oriented_box(row: np.ndarray, size: Size, labels: tuple[str, ...]) -> Box:
    """Return the axis-aligned box around an oriented one, whose corners are its points."""
    x, y, wide, tall, score, number, angle = (float(one) for one in row)
    cos, sin = float(np.cos(angle)), float(np.sin(angle))
    halves = [(along * wide / 2, down * tall / 2) for along, down in _CORNERS]
    corners_yx = [
        ((y + right * sin + below * cos) / size[0], (x + right * cos - below * sin) / size[1])
        for right, below in halves
    ]
    points = tuple(KeyPoint(f"corner {n}", *corner) for n, corner in enumerate(corners_yx))
    rows, columns = zip(*corners_yx, strict=True)
    corners = (min(rows), min(columns), max(rows), max(columns))
    label = label_for(labels, int(number))
    return Box(int(number), label, score, corners, points, _EDGES, turned=True)


STRIDES = ((8, 16, 32), (16, 32), (8, 16, 32, 64), (4, 8, 16, 32))
IN_CELL = 3  # anchors per cell, v3 to v7
MAX_PICKED_ROWS = 1000
MAX_BOXES = 300
OVERLAP = 0.7  # default of Ultralytics from v8 on
DEFAULT_SCORE = 0.25
UNIT_SCALE = (1.0, 1.0)  # the scale of coordinates that are fractions already
Scale = tuple[float, float]  # vertical and horizontal
YOLO_SCALING = PictureScaling(0.0, 1.0, "letterbox", 114.0)
YOLOX, YOLOX_SCALING = "YOLOX", PictureScaling(0.0, 255.0, "letterbox", 114.0, "bgr")
_V6_OUTPUT, _V6 = (
    "outputs",
    "yolov6",
)  # the output's name in Meituan's exports, and their file names


class _Outputs(NamedTuple):
    """The output with boxes, the output with mask prototypes, and the size of the picture."""

    boxes: TensorInfo
    prototypes: TensorInfo | None
    size: Size

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(info.name for info in (self.boxes, self.prototypes) if info is not None)


class _Others(NamedTuple):
    """Data that belongs to boxes: extras and their rows, the coordinate scale and the class labels.

    `needs_mask` drops boxes whose mask is empty, as v8 and later do.
    """

    outputs: _Outputs
    extras: Extras
    numbers: np.ndarray
    scale: Scale
    labels: tuple[str, ...]
    needs_mask: bool = True


def yolo_boxes_of_cells(model: Described) -> Meaning | None:
    """Identify one output [1, N, columns] or [1, columns, N] with one or three boxes per cell.

    A second output may contain mask prototypes.
    """
    outputs = _find_outputs(model)
    if outputs is None:
        return None
    shape, size = outputs.boxes.shape, outputs.size
    count, columns = max(shape[1:]), min(shape[1:])
    in_cell, strides = _grids(count, size)
    if not in_cell or columns < BOX + 1:
        return None
    several = in_cell > 1 or shape[1] == count
    notes, masks = read_export_notes(model.metadata), outputs.prototypes is not None
    layout = cell_columns(notes, columns, masks, several)
    if layout is None:
        return None
    option = processing.YoloBoxes(
        classes=layout.classes, objectness=layout.objectness, size=size, most=MAX_BOXES
    )
    option = option if layout.objectness else replace(option, overlap=OVERLAP)
    version = "v5 to v7" if layout.objectness else "v8 and later"
    counted = f"{layout.classes} {'class' if layout.classes == 1 else 'classes'}"
    decode = partial(_decode_cells, outputs, option, layout)
    if layout.objectness and in_cell == 1 and layout.extras == Extras():
        option = replace(option, strides=strides)
        decode = partial(_decode_offsets, outputs, option, layout)
        if not _is_v6(model, outputs):
            meaning = _meaning(f"{YOLOX}, {counted}", outputs, layout.extras, decode)
            return replace(meaning, scaling=YOLOX_SCALING, postprocess=option)
        version, option = "v6", replace(option, strides=())
    meaning = _meaning(f"YOLO {version}, {counted}", outputs, layout.extras, decode)
    return meaning if layout.extras.angle else replace(meaning, postprocess=option)


def _is_v6(model: Described, outputs: _Outputs) -> bool:
    """Return True for YOLO v6, which has YOLOX's shapes, but takes RGB pixels from 0 to 1."""
    title = getattr(model, "title", "").lower().replace("_", "").replace("-", "")
    return outputs.boxes.name == _V6_OUTPUT or _V6 in title


def picked_rows(model: Described) -> Meaning | None:
    """Identify [1, N, 6 or more]: left, top, right, bottom, score, class, then extras.

    YOLO v10 and exports with built-in suppression have this form. Oriented boxes have center, width
    and height instead of corners.
    """
    outputs = _find_outputs(model)
    if outputs is None:
        return None
    _, count, columns = outputs.boxes.shape
    notes, masks = read_export_notes(model.metadata), outputs.prototypes is not None
    extras = find_extras(notes, columns - PICKED, masks)
    if extras is None or count > MAX_PICKED_ROWS:
        return None
    family = "a detector with built-in suppression, such as YOLO v10"
    meaning = _meaning(family, outputs, extras, partial(_decode_picked, outputs, extras))
    return replace(meaning, datasets=())  # the rows do not say how many classes there are


def _find_outputs(model: Described) -> _Outputs | None:
    size, boxes = model_size(model), [info for info in model.outputs if len(info.shape) == 3]
    others = [info for info in model.outputs if info not in boxes]
    if size is None or len(boxes) != 1 or len(others) > 1:
        return None
    prototypes = next(iter(others), None)
    return _Outputs(boxes[0], prototypes, size) if _are_prototypes(prototypes, size) else None


def _grids(count: int, size: Size) -> tuple[int, tuple[int, ...]]:
    """Return the boxes per cell and the strides for this number of boxes; 0 if none match."""
    for in_cell in (1, IN_CELL):
        for strides in STRIDES:
            if count == in_cell * sum((size[0] // one) * (size[1] // one) for one in strides):
                return in_cell, strides
    return 0, ()


def _are_prototypes(output: TensorInfo | None, size: Size) -> bool:
    """Return True for mask prototypes at a quarter of the picture's size, or no second output."""
    if output is None:
        return True
    tall, wide = size[0] // 4, size[1] // 4
    return output.shape in ((1, COEFFICIENTS, tall, wide), (1, tall, wide, COEFFICIENTS))


def _meaning(family: str, outputs: _Outputs, extras: Extras, decode: Decode) -> Meaning:
    """Return the meaning of the outputs.

    Boxes are clipped to the photograph, as in Ultralytics, except oriented ones.
    """
    kinds = (BOXES, MASKS) if extras.coefficients else (BOXES,)
    clips = not extras.angle
    meaning = Meaning(family, SHAPES, kinds, outputs.names, decode, YOLO_SCALING, clips=clips)
    return meaning if extras.angle else replace(meaning, datasets=(COCO,))


def _decode_cells(
    outputs: _Outputs, option: YoloBoxes, layout: YoloColumns, reading: Reading
) -> Found:
    name, extras = outputs.boxes.name, layout.extras
    numbers = reading.numbers[name]
    rows = numbers if numbers.shape[1] > numbers.shape[2] else numbers.swapaxes(1, 2)
    scale, note = _scale(rows[0], outputs.size)
    least = reading.least(option.score)
    own = (PERSON,) if extras.points == POINTS and layout.classes == 1 else ()
    labels = reading.class_labels(layout.classes, own)
    if extras.angle:
        turned = _in_pixels(_oriented_rows(rows[0], layout, least), outputs.size, scale)
        best = pick_oriented(turned, option.overlap, option.most)
        boxes = tuple(oriented_box(row, outputs.size, labels) for row in best)
        return Found(boxes=boxes).with_notes(note)
    option = replace(option, normalized=scale == UNIT_SCALE, score=least)
    picked = picking.pick_boxes(option, {name: numbers})
    numbers = picked["extras"][0] if "extras" in picked else np.zeros((option.most, 0))
    others = _Others(outputs, extras, numbers, scale, labels, not layout.objectness)
    return _complete(boxes_from_arrays(picked, labels), others, reading).with_notes(note)


def _decode_offsets(
    outputs: _Outputs, option: YoloBoxes, layout: YoloColumns, reading: Reading
) -> Found:
    """Decode boxes that may be offsets from their cells (YOLOX), judged by their values."""
    numbers = reading.numbers[outputs.boxes.name]
    rows = numbers[0] if numbers.shape[1] > numbers.shape[2] else numbers[0].T
    if not are_offsets(rows[:, :2], cell_grid(outputs.size, option.strides)):
        return _decode_cells(outputs, replace(option, strides=()), layout, reading)
    option = replace(option, score=reading.least(option.score))
    picked = picking.pick_boxes(option, {outputs.boxes.name: numbers})
    labels = reading.class_labels(layout.classes)
    return Found(boxes=boxes_from_arrays(picked, labels)).with_notes(NOTE)


def _scale(rows: np.ndarray, size: Size) -> tuple[Scale, str]:
    """Return the factors that make coordinates fractions of the picture, and a note.

    Most boxes are smaller than twice the picture, so larger numbers are pixels.
    """
    values = rows[:, :BOX][rows[:, :BOX] != 0]
    fractions = not values.size or bool(np.median(np.abs(values)) <= 2)
    what = "fractions" if fractions else "pixels"
    note = f"assumed box coordinates in {what} of the picture, from their values"
    return UNIT_SCALE if fractions else (1 / size[0], 1 / size[1]), note


def _oriented_rows(rows: np.ndarray, layout: YoloColumns, least: float) -> np.ndarray:
    """Return rows of box, score, class and angle, for boxes with at least this score."""
    scores = rows[:, BOX : BOX + layout.classes]
    candidates = np.column_stack([rows[:, :BOX], scores.max(1), scores.argmax(1), rows[:, -1]])
    return candidates[candidates[:, BOX] >= least]


def _in_pixels(rows: np.ndarray, size: Size, scale: Scale) -> np.ndarray:
    down, along = size[0] * scale[0], size[1] * scale[1]
    pixels = rows[:, :BOX] * (along, down, along, down)
    return np.column_stack([pixels, rows[:, BOX:]])


def _complete(boxes: tuple[Box, ...], others: _Others, reading: Reading) -> Found:
    """Return the boxes with their key points and masks."""
    extras, numbers, outputs = others.extras, others.numbers, others.outputs
    if extras.points:
        pairs = zip(boxes, numbers, strict=False)
        boxes = tuple(with_points(box, row, extras, others.scale) for box, row in pairs)
    if outputs.prototypes is None:
        return Found(boxes=boxes)
    prototypes = reading.numbers[outputs.prototypes.name][0]
    mask, masked = mix_masks(boxes, numbers, prototypes, outputs.size)
    boxes = masked if others.needs_mask else boxes
    return Found(boxes=boxes, masks=(Mask(mask, ("", *others.labels)),))


def _decode_picked(outputs: _Outputs, extras: Extras, reading: Reading) -> Found:
    rows = reading.numbers[outputs.boxes.name][0]
    rows = rows[rows[:, BOX] >= reading.least(DEFAULT_SCORE)]
    scale, note = _scale(rows, outputs.size)
    labels = reading.object_labels((), int(rows[:, BOX + 1].max(initial=0)))
    if extras.angle:
        turned = _in_pixels(rows, outputs.size, scale)
        oriented = tuple(oriented_box(row, outputs.size, labels) for row in turned)
        return Found(boxes=oriented).with_notes(note)
    down, along = scale
    boxes = tuple(
        make_box(row[[1, 0, 3, 2]] * (down, along, down, along), float(row[4]), int(row[5]), labels)
        for row in rows
    )
    others = _Others(outputs, extras, rows[:, PICKED:], scale, labels)
    return _complete(boxes, others, reading).with_notes(note)

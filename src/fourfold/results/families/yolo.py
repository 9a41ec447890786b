"""YOLO: decoded boxes of v5 to v8 and their kin, and boxes that are picked already."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fourfold.lazy import lazy_import
from fourfold.results.boxes import box_at, boxes_of
from fourfold.results.families.body import PERSON, POINTS
from fourfold.results.families.oriented import oriented_box, pick_oriented
from fourfold.results.families.yolo_columns import (
    BOX,
    COEFFICIENTS,
    PICKED,
    Extras,
    YoloColumns,
    cell_columns,
    told_extras,
)
from fourfold.results.families.yolo_extras import mix_masks, with_points
from fourfold.results.families.yolo_offsets import NOTE, are_offsets, cell_places, decode_offsets
from fourfold.results.found import Box, Found, Mask, Size
from fourfold.results.meaning import (
    BOXES,
    MASKS,
    SHAPES,
    Decode,
    Described,
    Meaning,
    PictureScaling,
    Reading,
)
from fourfold.results.shapes import model_size
from fourfold.results.ultralytics import read_export_notes

if TYPE_CHECKING:
    from fourfold import processing
    from fourfold.processing import YoloBoxes
    from fourfold.results import picking
    from fourfold.runtime.tensor_info import TensorInfo
else:
    picking = lazy_import("fourfold.results.picking")
    processing = lazy_import("fourfold.processing")

STRIDES = ((8, 16, 32), (16, 32), (8, 16, 32, 64), (4, 8, 16, 32))
IN_CELL = 3  # anchors of a cell, from v3 to v7
MOST_PICKED = 1000
MOST_BOXES = 300
OVERLAP = 0.7  # that Ultralytics allow from v8 on
LEAST_SCORE = 0.25
WHOLE = (1.0, 1.0)  # what makes fractions of the picture such
Scale = tuple[float, float]  # down and along
YOLO_SCALING = PictureScaling(0.0, 1.0, "letterbox", 114.0)


class _Outputs(NamedTuple):
    """The output that has boxes, that of which masks are made, and the size of the picture."""

    boxes: TensorInfo
    prototypes: TensorInfo | None
    size: Size

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(info.name for info in (self.boxes, self.prototypes) if info is not None)


class _Others(NamedTuple):
    """What belongs to boxes: which extras, their numbers row by row, what makes places fractions,
    the labels of classes, and whether a box counts only if its mask has any pixel, as from v8 on.
    """

    outputs: _Outputs
    extras: Extras
    numbers: np.ndarray
    scale: Scale
    labels: tuple[str, ...]
    needs_mask: bool = True


def yolo_boxes_of_cells(model: Described) -> Meaning | None:
    """One output [1, N, columns] or [1, columns, N] with a box, or three, for each cell; another
    one may have what masks are made of.
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
    known = cell_columns(notes, columns, masks, several)
    if known is None:
        return None
    option = processing.YoloBoxes(
        classes=known.classes, objectness=known.objectness, size=size, most=MOST_BOXES
    )
    option = option if known.objectness else replace(option, overlap=OVERLAP)
    version = "v5 to v7" if known.objectness else "v8 and later"
    family = f"YOLO {version}, {known.classes} {'class' if known.classes == 1 else 'classes'}"
    decode = partial(_decode_cells, outputs, option, known)
    if known.objectness and in_cell == 1:
        decode = partial(_decode_offsets, outputs.boxes.name, cell_places(size, strides), decode)
    meaning = _meaning(family, outputs, known.extras, decode)
    return meaning if known.extras.angle else replace(meaning, postprocess=option)


def picked_rows(model: Described) -> Meaning | None:
    """[1, N, 6 and more]: left, top, right, bottom, score and class, as YOLO v10 and exports that
    pick; then what belongs to the box. Boxes that are turned have centre, width and height instead.
    """
    outputs = _find_outputs(model)
    if outputs is None:
        return None
    _, count, columns = outputs.boxes.shape
    notes, masks = read_export_notes(model.metadata), outputs.prototypes is not None
    extras = told_extras(notes, columns - PICKED, masks)
    if extras is None or count > MOST_PICKED:
        return None
    family = "a detector with boxes that it picks itself, as YOLO v10"
    return _meaning(family, outputs, extras, partial(_decode_picked, outputs, extras))


def _find_outputs(model: Described) -> _Outputs | None:
    size, boxes = model_size(model), [info for info in model.outputs if len(info.shape) == 3]
    rest = [info for info in model.outputs if info not in boxes]
    if size is None or len(boxes) != 1 or len(rest) > 1:
        return None
    prototypes = next(iter(rest), None)
    return _Outputs(boxes[0], prototypes, size) if _are_prototypes(prototypes, size) else None


def _grids(count: int, size: Size) -> tuple[int, tuple[int, ...]]:
    """How many of so many boxes each cell has, and the sides of cells; 0 where that cannot be."""
    for in_cell in (1, IN_CELL):
        for strides in STRIDES:
            if count == in_cell * sum((size[0] // one) * (size[1] // one) for one in strides):
                return in_cell, strides
    return 0, ()


def _are_prototypes(output: TensorInfo | None, size: Size) -> bool:
    """Masks at a quarter of the picture's size, of which each box is a mixture."""
    if output is None:
        return True
    tall, wide = size[0] // 4, size[1] // 4
    return output.shape in ((1, COEFFICIENTS, tall, wide), (1, tall, wide, COEFFICIENTS))


def _meaning(family: str, outputs: _Outputs, extras: Extras, decode: Decode) -> Meaning:
    """Boxes end where the photograph does, as Ultralytics have it; but for those that are turned,
    whose corners cannot be moved alone.
    """
    kinds = (BOXES, MASKS) if extras.coefficients else (BOXES,)
    clips = not extras.angle
    return Meaning(family, SHAPES, kinds, outputs.names, decode, YOLO_SCALING, clips=clips)


def _decode_cells(
    outputs: _Outputs, option: YoloBoxes, known: YoloColumns, reading: Reading
) -> Found:
    name, extras = outputs.boxes.name, known.extras
    numbers = reading.numbers[name]
    rows = numbers if numbers.shape[1] > numbers.shape[2] else numbers.swapaxes(1, 2)
    scale, note = _scale(rows[0], outputs.size)
    least = reading.least(option.score)
    own = (PERSON,) if extras.points == POINTS and known.classes == 1 else ()
    labels = reading.class_labels(known.classes, own)
    if extras.angle:
        turned = _in_pixels(_turned_rows(rows[0], known, least), outputs.size, scale)
        best = pick_oriented(turned, option.overlap, option.most)
        boxes = tuple(oriented_box(row, outputs.size, labels) for row in best)
        return Found(boxes=boxes).noting(note)
    option = replace(option, normalized=scale == WHOLE, score=least)
    found = picking.pick_boxes(option, {name: numbers})
    numbers = found["extras"][0] if "extras" in found else np.zeros((option.most, 0))
    others = _Others(outputs, extras, numbers, scale, labels, not known.objectness)
    return _complete(boxes_of(found, labels), others, reading).noting(note)


def _decode_offsets(name: str, cells: np.ndarray, decode: Decode, reading: Reading) -> Found:
    """The same for boxes that may be offsets from their cells, which their numbers tell."""
    numbers = reading.numbers[name]
    boxes = numbers[0, :, :BOX] if numbers.shape[1] > numbers.shape[2] else numbers[0, :BOX].T
    if not are_offsets(boxes[:, :2], cells):
        return decode(reading)
    changed = numbers.copy()
    boxes = changed[0, :, :BOX] if numbers.shape[1] > numbers.shape[2] else changed[0, :BOX].T
    boxes[:] = decode_offsets(boxes, cells)
    return decode(replace(reading, numbers={**reading.numbers, name: changed})).noting(NOTE)


def _scale(rows: np.ndarray, size: Size) -> tuple[Scale, str]:
    """What makes numbers of boxes fractions of the picture, down and along, and why: most boxes
    are not twice as large as the picture.
    """
    places = rows[:, :BOX][rows[:, :BOX] != 0]
    fractions = not places.size or bool(np.median(np.abs(places)) <= 2)
    what = "fractions" if fractions else "pixels"
    note = f"boxes are taken as {what} of the picture by their numbers"
    return WHOLE if fractions else (1 / size[0], 1 / size[1]), note


def _turned_rows(rows: np.ndarray, known: YoloColumns, least: float) -> np.ndarray:
    """Rows of a box, its score, its class and its angle, of boxes whose score counts."""
    scores = rows[:, BOX : BOX + known.classes]
    found = np.column_stack([rows[:, :BOX], scores.max(1), scores.argmax(1), rows[:, -1]])
    return found[found[:, BOX] >= least]


def _in_pixels(rows: np.ndarray, size: Size, scale: Scale) -> np.ndarray:
    down, along = size[0] * scale[0], size[1] * scale[1]
    pixels = rows[:, :BOX] * (along, down, along, down)
    return np.column_stack([pixels, rows[:, BOX:]])


def _complete(boxes: tuple[Box, ...], others: _Others, reading: Reading) -> Found:
    """The boxes with what belongs to them."""
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
    rows = rows[rows[:, BOX] >= reading.least(LEAST_SCORE)]
    scale, note = _scale(rows, outputs.size)
    labels = reading.thing_labels((), int(rows[:, BOX + 1].max(initial=0)))
    if extras.angle:
        turned = _in_pixels(rows, outputs.size, scale)
        found = tuple(oriented_box(row, outputs.size, labels) for row in turned)
        return Found(boxes=found).noting(note)
    down, along = scale
    boxes = tuple(
        box_at(row[[1, 0, 3, 2]] * (down, along, down, along), float(row[4]), int(row[5]), labels)
        for row in rows
    )
    others = _Others(outputs, extras, rows[:, PICKED:], scale, labels)
    return _complete(boxes, others, reading).noting(note)

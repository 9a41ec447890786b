"""YOLO: decoded boxes of v5 to v8 and their kin, boxes that are picked already, and raw heads."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fourfold.lazy import lazy_import
from fourfold.processing import YoloBoxes, YoloHeads
from fourfold.results.boxes import box_at, boxes_of
from fourfold.results.families.body import PERSON, POINTS, ROW, body_points
from fourfold.results.found import Box, Found, Mask, Size
from fourfold.results.labels import own_names
from fourfold.results.meaning import (
    BOXES,
    MASKS,
    SHAPES,
    Described,
    Meaning,
    PictureScaling,
    Reading,
)
from fourfold.results.scores import logistic
from fourfold.results.shapes import model_size
from fourfold.results.skeletons import BODY
from fourfold.types import Shape

if TYPE_CHECKING:
    from fourfold.results import picking
    from fourfold.runtime.tensor_info import TensorInfo
else:
    picking = lazy_import("fourfold.results.picking")

STRIDES = ((8, 16, 32), (16, 32), (8, 16, 32, 64))
IN_CELL = 3  # anchors of a cell, from v3 to v7
BOX, COEFFICIENTS = 4, 32  # columns of a box, and of what makes its mask
PICKED = 6  # columns of a box that is picked: corners, score, class
MOST_PICKED = 1000
# Of heads that are not decoded, the finest grid first, in pixels.
TINY_ANCHORS = ((10, 14, 23, 27, 37, 58), (81, 82, 135, 169, 344, 319))
ANCHORS = (
    (10, 13, 16, 30, 33, 23),
    (30, 61, 62, 45, 59, 119),
    (116, 90, 156, 198, 373, 326),
)
_SCALING = PictureScaling(0.0, 1.0, "letterbox", 114.0)


class _Columns(NamedTuple):
    """What the columns of a box hold: the four of the box come first, then these."""

    objectness: bool
    classes: int
    points: int = 0
    coefficients: int = 0


def yolo_boxes_of_cells(model: Described) -> Meaning | None:
    """One output [1, N, columns] or [1, columns, N] with a box, or three, for each cell; another
    one may have what masks are made of.
    """
    size, outputs = model_size(model), [info for info in model.outputs if len(info.shape) == 3]
    rest = [info for info in model.outputs if info not in outputs]
    if size is None or len(outputs) != 1 or len(rest) > 1:
        return None
    (output,) = outputs
    shape, prototypes = output.shape, next(iter(rest), None)
    count, columns = max(shape[1:]), min(shape[1:])
    in_cell = next((n for n in (1, IN_CELL) for s in STRIDES if count == n * _cells(size, s)), 0)
    if not in_cell or columns < BOX + 1 or not _are_prototypes(prototypes, size):
        return None
    known = _columns(model, columns, in_cell, prototypes is not None, shape[1] == count)
    if known is None:
        return None
    option = YoloBoxes(classes=known.classes, objectness=known.objectness, size=size)
    names = (output.name, *(info.name for info in rest))
    decode = partial(_decode_cells, option, known, names)
    family = f"YOLO {'v5 to v7' if known.objectness else 'v8 and later'}, {known.classes} classes"
    kinds = (BOXES, *((MASKS,) if rest else ()))
    return Meaning(family, SHAPES, kinds, names, decode, _SCALING, option)


def _cells(size: Size, strides: tuple[int, ...]) -> int:
    return sum((size[0] // stride) * (size[1] // stride) for stride in strides)


def _are_prototypes(output: TensorInfo | None, size: Size) -> bool:
    """Masks at a quarter of the picture's size, of which each box is a mixture."""
    if output is None:
        return True
    tall, wide = size[0] // 4, size[1] // 4
    return output.shape in ((1, COEFFICIENTS, tall, wide), (1, tall, wide, COEFFICIENTS))


def _columns(
    model: Described, columns: int, in_cell: int, masks: bool, rows_first: bool
) -> _Columns | None:
    """What columns hold: by names that the model has for its classes, else by how many there are.
    Cells with several anchors have a column for whether there is anything; so have v6 and others
    whose rows are boxes.
    """
    left = columns - BOX - (COEFFICIENTS if masks else 0)
    names = len(own_names(model.metadata))
    several = in_cell > 1 or rows_first
    if names:
        several = left - names == 1
        points, rest = divmod(left - names, ROW)
        if points and not rest and not masks:
            return _Columns(False, names, points)
    elif left == 1 + POINTS * ROW and not several and not masks:
        return _Columns(False, 1, POINTS)
    classes = left - int(several)
    coefficients = COEFFICIENTS if masks else 0
    return _Columns(several, classes, 0, coefficients) if classes >= 1 else None


def _decode_cells(
    option: YoloBoxes, known: _Columns, names: tuple[str, ...], reading: Reading
) -> Found:
    numbers = reading.numbers[names[0]]
    rows = numbers if numbers.shape[1] > numbers.shape[2] else numbers.swapaxes(1, 2)
    fractions = bool(rows[..., :BOX].max(initial=0) <= 2)
    option = replace(option, normalized=fractions, score=_least(option.score, reading))
    found = picking.pick_boxes(option, {names[0]: numbers})
    own = (PERSON,) if known.points == POINTS and known.classes == 1 else ()
    boxes = boxes_of(found, reading.class_labels(known.classes, own))
    what = "fractions" if fractions else "pixels"
    answer = Found().noting(f"boxes are taken as {what} of the picture by their numbers")
    if known.points:
        scale = np.ones(2) if fractions or option.size is None else np.array(option.size)
        boxes = tuple(
            _with_points(*pair, scale) for pair in zip(boxes, found["extras"][0], strict=False)
        )
    if known.coefficients:
        mask = _mixed_mask(boxes, found["extras"][0], reading.numbers[names[1]][0])
        labels = ("", *reading.class_labels(known.classes))
        answer = replace(answer, masks=(Mask(mask, labels),))
    return replace(answer, boxes=boxes)


def _least(usual: float, reading: Reading) -> float:
    return usual if reading.score is None else reading.score


def _with_points(box: Box, extras: np.ndarray, scale: np.ndarray) -> Box:
    """Points of rows of x, y and a score."""
    rows = extras.reshape(-1, ROW)
    turned = np.column_stack([rows[:, 1] / scale[0], rows[:, 0] / scale[-1], rows[:, 2]])
    points = body_points(turned)
    return replace(box, points=points, edges=BODY.edges if len(points) == POINTS else ())


def _mixed_mask(
    boxes: tuple[Box, ...], coefficients: np.ndarray, prototypes: np.ndarray
) -> np.ndarray:
    """For each pixel 1 + the class of the best box whose mask has it, 0 where none has."""
    first = prototypes.shape[0] == COEFFICIENTS
    planes = prototypes if first else np.moveaxis(prototypes, -1, 0)
    tall, wide = planes.shape[1:]
    mask = np.zeros((tall, wide), np.int64)
    for box, row in reversed(list(zip(boxes, coefficients, strict=False))):
        top, left, bottom, right = (round(one) for one in box.pixels((tall, wide)))
        part = slice(max(top, 0), max(bottom, 0)), slice(max(left, 0), max(right, 0))
        inside = logistic(np.tensordot(row, planes[:, part[0], part[1]], 1)) > 0.5
        mask[part][inside] = 1 + box.number
    return mask


def picked_rows(model: Described) -> Meaning | None:
    """[1, N, 6]: left, top, right, bottom, score and class, as YOLO v10 and exports that pick."""
    size = model_size(model)
    if size is None or len(model.outputs) != 1:
        return None
    (output,) = model.outputs
    shape: Shape = output.shape
    if len(shape) != 3 or shape[2] != PICKED or shape[1] > MOST_PICKED:
        return None
    decode = partial(_decode_picked, output.name, size, len(own_names(model.metadata)))
    family = "a detector with boxes that it picks itself, as YOLO v10"
    return Meaning(family, SHAPES, (BOXES,), (output.name,), decode, _SCALING)


def _decode_picked(name: str, size: Size, classes: int, reading: Reading) -> Found:
    rows = reading.numbers[name][0]
    rows = rows[rows[:, 4] >= _least(0.25, reading)]
    fractions = bool(rows[:, :BOX].max(initial=0) <= 2)
    scale = np.ones(4) if fractions else np.array([*size, *size], float)
    labels = reading.thing_labels((), int(rows[:, 5].max(initial=0)))
    found = tuple(
        box_at(row[[1, 0, 3, 2]] / scale, float(row[4]), int(row[5]), labels) for row in rows
    )
    what = "fractions" if fractions else "pixels"
    return Found(boxes=found).noting(f"boxes are taken as {what} of the picture by their numbers")


def yolo_raw_heads(model: Described) -> Meaning | None:
    """An output for each grid, with three boxes a cell that are not decoded."""
    size, shapes = model_size(model), [info.shape for info in model.outputs]
    anchors = {2: TINY_ANCHORS, 3: ANCHORS}.get(len(shapes))
    if size is None or anchors is None:
        return None
    heads = [_head(shape) for shape in shapes]
    grids = sorted(((tall, wide) for tall, wide, _ in heads), reverse=True)
    strides = STRIDES[0] if len(shapes) == 3 else STRIDES[1]
    columns = {count for _, _, count in heads}
    if grids != [(size[0] // one, size[1] // one) for one in strides] or len(columns) != 1:
        return None
    (count,) = columns
    if count <= BOX + 1:
        return None
    form = "square" if len(shapes[0]) == 5 else "exponential"
    option = YoloHeads(anchors=anchors, form=form, size=size)
    names = tuple(info.name for info in model.outputs)
    decode = partial(_decode_heads, option, names, count - BOX - 1)
    version = "v5" if form == "square" else "v3-tiny" if len(shapes) == 2 else "v3"
    family = f"heads of YOLO {version}"
    return Meaning(family, SHAPES, (BOXES,), names, decode, _SCALING, option)


def _head(shape: Shape) -> tuple[int, int, int]:
    """Height, width and the columns of a box; zeros where it is no head."""
    if len(shape) == 5 and shape[1] == IN_CELL:
        return shape[2], shape[3], shape[4]
    if len(shape) == 4 and shape[3] % IN_CELL == 0 and shape[3] > max(shape[1:3]):
        return shape[1], shape[2], shape[3] // IN_CELL
    if len(shape) == 4 and shape[1] % IN_CELL == 0 and shape[1] > IN_CELL * (BOX + 1):
        return shape[2], shape[3], shape[1] // IN_CELL
    return 0, 0, 0


def _decode_heads(
    option: YoloHeads, names: tuple[str, ...], classes: int, reading: Reading
) -> Found:
    option = replace(option, score=_least(option.score, reading))
    found = picking.pick_boxes(option, {name: reading.numbers[name] for name in names})
    boxes = boxes_of(found, reading.class_labels(classes))
    note = "anchors are taken to be those that this YOLO was published with"
    return Found(boxes=boxes).noting(note)

"""Columns of YOLO boxes: their layout, key points, and masks."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, prod
from typing import NamedTuple

import numpy as np

from fourfold.processing.resampling import ResizedAxis, Sampling, TapTable, tap_table
from fourfold.vision.families.body import POINTS, ROW, body_points
from fourfold.vision.found import Box, KeyPoint, Size
from fourfold.vision.skeletons import BODY
from fourfold.vision.ultralytics import ORIENTED, ExportNotes

_SMOOTH = Sampling("linear")


def with_points(box: Box, numbers: np.ndarray, extras: Extras, scale: tuple[float, float]) -> Box:
    """Return the box with its key points, from rows of x, y and an optional score.

    `scale` (vertical, horizontal) makes coordinates fractions of the picture.
    """
    rows = numbers.reshape(extras.points, extras.point_numbers)
    turned = np.column_stack([rows[:, 1] * scale[0], rows[:, 0] * scale[1], rows[:, 2:]])
    points = body_points(turned)
    if len(extras.point_names) == len(points):
        named = zip(points, extras.point_names, strict=True)
        points = tuple(replace(point, name=name) for point, name in named)
    return replace(box, points=points, edges=_edges(points))


def _edges(points: tuple[KeyPoint, ...]) -> tuple[tuple[int, int], ...]:
    return BODY.edges if tuple(one.name for one in points) == BODY.points else ()


def mix_masks(
    boxes: tuple[Box, ...], coefficients: np.ndarray, prototypes: np.ndarray, size: Size
) -> tuple[np.ndarray, tuple[Box, ...]]:
    """Return a class map of the picture, and the boxes whose masks are not empty.

    A pixel is 1 + the class of the best box whose mask contains it, or 0. `prototypes`, [channels,
    height, width] or [height, width, channels], are smaller than the picture. Masks are enlarged
    before they are thresholded.
    """
    first = prototypes.shape[0] == COEFFICIENTS
    planes = prototypes if first else np.moveaxis(prototypes, -1, 0)
    tables = [_taps(*pair) for pair in zip(planes.shape[1:], size, strict=True)]
    mask, kept = np.zeros(size, np.int64), []
    for box, row in reversed(list(zip(boxes, coefficients, strict=False))):
        inside = _pixels_inside(box, size)
        down, along = (_part(table, cut) for table, cut in zip(tables, inside, strict=True))
        needed = planes[:, down.needed, along.needed]
        part = along.stretch(down.stretch(np.tensordot(row, needed, 1)).T).T > 0
        mask[inside][part] = 1 + box.number
        if part.any():
            kept.append(box)
    return mask, tuple(reversed(kept))


def _taps(size: int, new_size: int) -> TapTable:
    return tap_table(_SMOOTH, ResizedAxis(0, new_size, new_size / size), size)


def _pixels_inside(box: Box, size: Size) -> tuple[slice, slice]:
    top, left, bottom, right = (max(ceil(one), 0) for one in box.pixels(size))
    return slice(top, bottom), slice(left, right)


class _StretchedPart(NamedTuple):
    """A part of an axis to enlarge: the slice of the axis it needs, and the taps of each new
    element.
    """

    needed: slice
    indices: np.ndarray
    weights: np.ndarray

    def stretch(self, plane: np.ndarray) -> np.ndarray:
        """Enlarge the needed part of a plane along its first axis."""
        taps = range(self.weights.shape[1])
        terms = [self.weights[:, tap, None] * plane[self.indices[:, tap]] for tap in taps]
        return np.asarray(np.sum(terms, 0))


def _part(table: TapTable, cut: slice) -> _StretchedPart:
    indices = table.indices[cut]
    start, end = int(indices.min(initial=table.indices.max())), int(indices.max(initial=0)) + 1
    return _StretchedPart(slice(start, end), indices - start, table.weights[cut])


BOX = 4  # columns of the coordinates
COEFFICIENTS = 32  # columns of mask coefficients
PICKED = 6  # columns after suppression: coordinates, score, class


class Extras(NamedTuple):
    """Further columns of a box: key points, mask coefficients, or the angle of an oriented box."""

    points: int = 0
    point_numbers: int = ROW
    point_names: tuple[str, ...] = ()
    coefficients: int = 0
    angle: bool = False


class YoloColumns(NamedTuple):
    """The columns after the coordinates, in order, of which objectness comes first if present."""

    objectness: bool
    classes: int
    extras: Extras = Extras()


def cell_columns(
    notes: ExportNotes, columns: int, masks: bool, several: bool
) -> YoloColumns | None:
    """Return the column layout of boxes per cell, or None if it is unknown.

    Args:
        notes: Metadata of the export.
        columns: Number of columns.
        masks: True if another output has mask prototypes.
        several: True if cells have several boxes, or boxes are rows, as in v5 to v7. Then there is
            an objectness column, unless the class names say otherwise.
    """
    left = columns - BOX
    for objectness in (False, True) if notes.names else ():
        extras = find_extras(notes, left - objectness - len(notes.names), masks)
        if extras is not None:
            return YoloColumns(objectness, len(notes.names), extras)
    if left == 1 + POINTS * ROW and not several and not masks:
        return YoloColumns(False, 1, Extras(POINTS))
    coefficients = COEFFICIENTS if masks else 0
    classes = left - several - coefficients
    return YoloColumns(several, classes, Extras(coefficients=coefficients)) if classes > 0 else None


def find_extras(notes: ExportNotes, count: int, masks: bool) -> Extras | None:
    """Return what the columns after the classes hold, or None if it is unknown."""
    if masks:
        return Extras(coefficients=COEFFICIENTS) if count == COEFFICIENTS else None
    if notes.task == ORIENTED:
        return Extras(angle=True) if count == 1 else None
    if not count:
        return Extras()
    if notes.point_shape is not None and prod(notes.point_shape) == count:
        return Extras(*notes.point_shape, notes.point_names)
    body = count == POINTS * ROW
    points = count // ROW if body or (notes.names and count > 0 and count % ROW == 0) else 0
    return Extras(points) if points else None

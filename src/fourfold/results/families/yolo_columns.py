"""Layout of the columns of YOLO boxes, from the metadata and the number of columns."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from fourfold.results.families.body import POINTS, ROW
from fourfold.results.ultralytics import ORIENTED, ExportNotes

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
        extras = told_extras(notes, left - objectness - len(notes.names), masks)
        if extras is not None:
            return YoloColumns(objectness, len(notes.names), extras)
    if left == 1 + POINTS * ROW and not several and not masks:
        return YoloColumns(False, 1, Extras(POINTS))
    coefficients = COEFFICIENTS if masks else 0
    classes = left - several - coefficients
    return YoloColumns(several, classes, Extras(coefficients=coefficients)) if classes > 0 else None


def told_extras(notes: ExportNotes, count: int, masks: bool) -> Extras | None:
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

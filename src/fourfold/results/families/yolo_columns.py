"""What the columns of YOLO's boxes hold, by what the model says of itself and by their number."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from fourfold.results.families.body import POINTS, ROW
from fourfold.results.ultralytics import ORIENTED, ExportNotes

BOX = 4  # columns of where a box is
COEFFICIENTS = 32  # columns of what makes its mask
PICKED = 6  # columns of a box that is picked: where it is, score, class


class Extras(NamedTuple):
    """What a box has besides place and class: key points of so many numbers each, coefficients of
    its mask, or the angle by which it is turned.
    """

    points: int = 0
    point_numbers: int = ROW
    point_names: tuple[str, ...] = ()
    coefficients: int = 0
    angle: bool = False


class YoloColumns(NamedTuple):
    """What the columns behind those of the box hold, in their order. `objectness` is whether the
    first says that there is anything.
    """

    objectness: bool
    classes: int
    extras: Extras = Extras()


def cell_columns(
    notes: ExportNotes, columns: int, masks: bool, several: bool
) -> YoloColumns | None:
    """Those of a box for each cell. `several` is whether cells have several boxes, or boxes are
    rows, as with v5 to v7: then there is a column for whether there is anything, where names of
    classes do not tell. With `masks` another output has what masks are made of.
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
    """What so many columns behind the classes hold; None where nothing tells."""
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

"""Types of decoded results: classes, boxes, masks, key points and pictures.

Coordinates are fractions of the photograph, from 0 at its top and left to 1 at its bottom and
right. If no photograph is known, they are fractions of the model's input picture.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

Size = tuple[int, int]  # height and width
Corners = tuple[float, float, float, float]  # top, left, bottom, right
Edge = tuple[int, int]  # indices of two connected points
FoundType = TypeVar("FoundType", bound="Found")
WHOLE: Corners = (0.0, 0.0, 1.0, 1.0)


@dataclass(frozen=True)
class ClassScore:
    """The score of one class in one output. The label is '' if it is unknown."""

    number: int
    label: str
    score: float
    output: str = ""

    @property
    def name(self) -> str:
        return class_name(self.number, self.label)


@dataclass(frozen=True)
class KeyPoint:
    """A named point. `score` is None if the model has no score per point."""

    name: str
    y: float
    x: float
    score: float | None = None


@dataclass(frozen=True)
class KeyPoints:
    """The points of one object, such as a hand.

    Attributes:
        name: The kind of object.
        points: The points, in the order of the model.
        edges: Indices of connected points.
        score: The score of the object, or None.
        least: The minimum score of a visible point.
    """

    name: str
    points: tuple[KeyPoint, ...]
    edges: tuple[Edge, ...] = ()
    score: float | None = None
    least: float = 0.0

    @property
    def seen(self) -> tuple[bool, ...]:
        """Return for each point whether its score reaches the minimum."""
        return tuple(one.score is None or one.score >= self.least for one in self.points)


@dataclass(frozen=True)
class Box:
    """A detected object and its corners: top, left, bottom, right.

    Attributes:
        number: The class number.
        label: The class label, or ''.
        score: The score, usually from 0 to 1.
        corners: Top, left, bottom and right. An oriented box lies inside them.
        points: Key points of the object; the four corners of an oriented box.
        edges: Indices of connected points.
        turned: True for an oriented (rotated) box.
    """

    number: int
    label: str
    score: float
    corners: Corners
    points: tuple[KeyPoint, ...] = ()
    edges: tuple[Edge, ...] = ()
    turned: bool = False

    @property
    def name(self) -> str:
        return class_name(self.number, self.label)

    def pixels(self, size: Size) -> Corners:
        """Return the corners in pixels of a picture of this height and width."""
        return corners_in_pixels(self.corners, size)


@dataclass(frozen=True)
class ClassShare:
    """The share of a mask's pixels that belong to a class."""

    number: int
    label: str
    share: float

    @property
    def name(self) -> str:
        return class_name(self.number, self.label)


@dataclass(frozen=True)
class Mask:
    """The class of each pixel.

    Attributes:
        classes: Class numbers, [height, width].
        labels: Class labels.
        corners: The part of the photograph that the mask covers.
        background: True if class 0 is the background, which is not drawn.
    """

    classes: np.ndarray
    labels: tuple[str, ...] = ()
    corners: Corners = WHOLE
    background: bool = True

    @property
    def shares(self) -> tuple[ClassShare, ...]:
        """Return the classes in the mask, largest share first."""
        counts = np.bincount(self.classes.ravel())
        order = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
        total = max(self.classes.size, 1)
        return tuple(
            ClassShare(int(one), label_for(self.labels, int(one)), float(counts[one] / total))
            for one in order
        )


@dataclass(frozen=True)
class MadePicture:
    """A picture that the model made: uint8 [height, width, 1 or 3]."""

    pixels: np.ndarray
    output: str


@dataclass(frozen=True)
class Found:
    """Decoded outputs. `notes` lists assumptions; `unknown` names outputs that were not decoded."""

    classes: tuple[ClassScore, ...] = ()
    boxes: tuple[Box, ...] = ()
    masks: tuple[Mask, ...] = ()
    key_points: tuple[KeyPoints, ...] = ()
    pictures: tuple[MadePicture, ...] = ()
    notes: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    def with_notes(self: FoundType, *notes: str) -> FoundType:
        """Return a copy with more notes. Empty notes are dropped."""
        return replace(self, notes=(*self.notes, *(one for one in notes if one)))


def class_name(number: int, label: str) -> str:
    return label or f"class {number}"


def label_for(labels: tuple[str, ...], number: int) -> str:
    return labels[number] if 0 <= number < len(labels) else ""


def corners_in_pixels(corners: Corners, size: Size) -> Corners:
    top, left, bottom, right = corners
    return top * size[0], left * size[1], bottom * size[0], right * size[1]

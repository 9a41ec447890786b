"""What is found in outputs, as things that a person knows: classes, boxes, masks, points, pictures.

Places are fractions of the photograph, from 0 at its top and left to 1 at its bottom and right; of
the model's own picture, where nobody said which photograph went in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

Size = tuple[int, int]  # height and width
Corners = tuple[float, float, float, float]  # top, left, bottom, right
Edge = tuple[int, int]  # the places of two points that belong together
FoundType = TypeVar("FoundType", bound="Found")
WHOLE: Corners = (0.0, 0.0, 1.0, 1.0)


@dataclass(frozen=True)
class ClassScore:
    """A class with its label, '' where none is known, and its score in one of the outputs."""

    number: int
    label: str
    score: float
    output: str = ""

    @property
    def name(self) -> str:
        return class_name(self.number, self.label)


@dataclass(frozen=True)
class KeyPoint:
    """A named place. `score` is None where the model gives none for each point."""

    name: str
    y: float
    x: float
    score: float | None = None


@dataclass(frozen=True)
class KeyPoints:
    """Points of one thing, such as a hand, and the `edges` between them, by their places.

    `seen` tells which points count: those whose score is at least `least`.
    """

    name: str
    points: tuple[KeyPoint, ...]
    edges: tuple[Edge, ...] = ()
    score: float | None = None
    least: float = 0.0

    @property
    def seen(self) -> tuple[bool, ...]:
        return tuple(one.score is None or one.score >= self.least for one in self.points)


@dataclass(frozen=True)
class Box:
    """A thing and where it is: top, left, bottom, right. Some detectors find points of it, too.
    Where a box is `turned`, its points are its own four corners, and `corners` hold all of it.
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
        """The corners in pixels of a picture of this height and width."""
        return places_in_pixels(self.corners, size)


@dataclass(frozen=True)
class ClassShare:
    """The part of a mask's pixels that are of a class."""

    number: int
    label: str
    share: float

    @property
    def name(self) -> str:
        return class_name(self.number, self.label)


@dataclass(frozen=True)
class Mask:
    """The class of each pixel, [height, width], and labels by class; it lies at `corners`.

    Class 0 is the background, where `background` says so: it is not drawn.
    """

    classes: np.ndarray
    labels: tuple[str, ...] = ()
    corners: Corners = WHOLE
    background: bool = True

    @property
    def shares(self) -> tuple[ClassShare, ...]:
        """All classes that are there, the largest first."""
        counts = np.bincount(self.classes.ravel())
        order = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
        total = max(self.classes.size, 1)
        return tuple(
            ClassShare(int(one), label_at(self.labels, int(one)), float(counts[one] / total))
            for one in order
        )


@dataclass(frozen=True)
class MadePicture:
    """A picture that the model made: bytes [height, width, 1 or 3]."""

    pixels: np.ndarray
    output: str


@dataclass(frozen=True)
class Found:
    """What was found in a model's outputs. `notes` are what had to be assumed; `unknown` are
    outputs of which nothing is known.
    """

    classes: tuple[ClassScore, ...] = ()
    boxes: tuple[Box, ...] = ()
    masks: tuple[Mask, ...] = ()
    key_points: tuple[KeyPoints, ...] = ()
    pictures: tuple[MadePicture, ...] = ()
    notes: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    def noting(self: FoundType, *notes: str) -> FoundType:
        """The same with more notes; empty ones do not count."""
        return replace(self, notes=(*self.notes, *(one for one in notes if one)))


def class_name(number: int, label: str) -> str:
    return label or f"class {number}"


def label_at(labels: tuple[str, ...], number: int) -> str:
    return labels[number] if 0 <= number < len(labels) else ""


def places_in_pixels(corners: Corners, size: Size) -> Corners:
    top, left, bottom, right = corners
    return top * size[0], left * size[1], bottom * size[0], right * size[1]

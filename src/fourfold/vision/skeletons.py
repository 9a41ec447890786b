"""Names and connections of the key points that known models find."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from fourfold.vision.found import Edge


class Skeleton(NamedTuple):
    """The points of a kind of object, in the order of the model's output."""

    title: str
    points: tuple[str, ...]
    edges: tuple[Edge, ...] = ()


def _chain(*indices: int) -> tuple[Edge, ...]:
    return tuple(pairwise(indices))


def _sides(*names: str) -> tuple[str, ...]:
    return tuple(f"{side} {name}" for name in names for side in ("left", "right"))


_LIMBS = ("shoulder", "elbow", "wrist", "hip", "knee", "ankle")
# COCO key points, as in PoseNet, MoveNet and YOLO.
BODY = Skeleton(
    "body",
    ("nose", *_sides("eye", "ear", *_LIMBS)),
    (
        *((0, 1), (0, 2), (1, 3), (2, 4)),
        *((5, 6), (5, 11), (6, 12), (11, 12)),
        *(_chain(5, 7, 9) + _chain(6, 8, 10) + _chain(11, 13, 15) + _chain(12, 14, 16)),
    ),
)
_EYE = ("inner eye", "eye", "outer eye")
# MediaPipe's pose, with hands and feet.
POSE = Skeleton(
    "body",
    (
        "nose",
        *(f"{side} {name}" for side in ("left", "right") for name in _EYE),
        *_sides("ear", "mouth corner", "shoulder", "elbow", "wrist"),
        *_sides("pinky", "index finger", "thumb", "hip", "knee", "ankle", "heel", "foot"),
    ),
    (
        *(_chain(8, 6, 5, 4, 0, 1, 2, 3, 7) + _chain(9, 10)),
        *((11, 12), (11, 23), (12, 24), (23, 24)),
        *(_chain(11, 13, 15, 17, 19, 15) + _chain(15, 21)),
        *(_chain(12, 14, 16, 18, 20, 16) + _chain(16, 22)),
        *(_chain(23, 25, 27, 29, 31, 27) + _chain(24, 26, 28, 30, 32, 28)),
    ),
)
_FINGERS = ("thumb", "index finger", "middle finger", "ring finger", "little finger")
_JOINTS = ("base", "middle", "end", "tip")
HAND = Skeleton(
    "hand",
    ("wrist", *(f"{finger} {joint}" for finger in _FINGERS for joint in _JOINTS)),
    (
        *(edge for first in range(1, 21, 4) for edge in _chain(*range(first, first + 4))),
        *(_chain(0, 1) + _chain(0, 5, 9, 13, 17, 0)),
    ),
)
FACE = Skeleton("face", tuple(f"point {number}" for number in range(468)))
FACE_WITH_IRISES = Skeleton("face", tuple(f"point {number}" for number in range(478)))
EYE = Skeleton("eye and brow", tuple(f"point {number}" for number in range(71)))
IRIS = Skeleton("iris", ("pupil", "right", "top", "left", "bottom"))
# Key points of MediaPipe's detectors.
FACE_BOX = ("right eye", "left eye", "nose tip", "mouth", "right ear", "left ear")
PALM_BOX = (
    *("wrist", "index finger base", "middle finger base", "ring finger base"),
    *("little finger base", "thumb base", "thumb middle"),
)
POSE_BOX = ("middle of the hips", "circle of the body", "middle of the shoulders", "upper body")

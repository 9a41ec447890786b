"""Map answers from the model's input picture to the photograph inside it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fourfold.pixels.frame_fit import FrameFit
from fourfold.results.answer import Answer
from fourfold.results.found import Box, Corners, KeyPoint, Mask, Size


def answer_in_frame(answer: Answer, fit: FrameFit, frame: Size) -> Answer:
    """Convert coordinates to fractions of the photograph, and cut masks to it."""
    return replace(
        answer,
        boxes=tuple(_box(one, fit, frame) for one in answer.boxes),
        key_points=tuple(
            replace(one, points=_points(one.points, fit, frame)) for one in answer.key_points
        ),
        masks=tuple(_mask(one, fit, frame) for one in answer.masks),
        size=frame,
    )


def clip_answer(answer: Answer) -> Answer:
    """Clip boxes and points to the photograph."""
    return replace(
        answer,
        boxes=tuple(_clipped_box(one) for one in answer.boxes),
        key_points=tuple(replace(one, points=_clipped(one.points)) for one in answer.key_points),
    )


def _clipped_box(box: Box) -> Box:
    top, left, bottom, right = (_inside(one) for one in box.corners)
    return replace(box, corners=(top, left, bottom, right), points=_clipped(box.points))


def _clipped(points: tuple[KeyPoint, ...]) -> tuple[KeyPoint, ...]:
    return tuple(replace(one, y=_inside(one.y), x=_inside(one.x)) for one in points)


def _inside(fraction: float) -> float:
    return min(max(fraction, 0.0), 1.0)


def _place(y: float, x: float, fit: FrameFit, frame: Size) -> tuple[float, float]:
    along, down = fit.to_frame(np.array(x * fit.target[1]), np.array(y * fit.target[0]))
    return float(down / frame[0]), float(along / frame[1])


def _box(box: Box, fit: FrameFit, frame: Size) -> Box:
    top, left, bottom, right = box.corners
    corners: Corners = (*_place(top, left, fit, frame), *_place(bottom, right, fit, frame))
    return replace(box, corners=corners, points=_points(box.points, fit, frame))


def _points(points: tuple[KeyPoint, ...], fit: FrameFit, frame: Size) -> tuple[KeyPoint, ...]:
    moved = []
    for one in points:
        y, x = _place(one.y, one.x, fit, frame)
        moved.append(replace(one, y=y, x=x))
    return tuple(moved)


def _mask(mask: Mask, fit: FrameFit, frame: Size) -> Mask:
    """Cut off the bars around the photograph and set the corners of the visible part."""
    tall, wide = mask.classes.shape
    rows, columns = (
        slice(
            round(offset / target * count),
            max(round((offset + size) / target * count), round(offset / target * count) + 1),
        )
        for offset, size, target, count in zip(
            fit.offset, fit.size, fit.target, (tall, wide), strict=True
        )
    )
    top, left, height, width = fit.box
    bottom, right = top + height, left + width
    corners = (top / frame[0], left / frame[1], bottom / frame[0], right / frame[1])
    return replace(mask, classes=mask.classes[rows, columns], corners=corners)

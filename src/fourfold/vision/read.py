"""Decode a model's outputs: identify its family, read the numbers, and map them to the
photograph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import numpy as np

from fourfold.errors import InputError
from fourfold.processing.pixels.frame_fit import FrameFit
from fourfold.types import Shape
from fourfold.vision.answer import Answer
from fourfold.vision.families.body import movenet, posenet
from fourfold.vision.families.classification import embedding, labelled_scores, single_row
from fourfold.vision.families.fastestdet import fastestdet
from fourfold.vision.families.mediapipe import mediapipe_detector, mediapipe_landmarks
from fourfold.vision.families.processed import processed_outputs
from fourfold.vision.families.segmentation import large_output
from fourfold.vision.families.ssd import picked_detections, raw_ssd
from fourfold.vision.families.ultraface import ultraface
from fourfold.vision.families.yolo import picked_rows, yolo_boxes_of_cells
from fourfold.vision.families.yolo_heads import yolo_raw_heads
from fourfold.vision.found import Box, Corners, KeyPoint, MadePicture, Mask, Size
from fourfold.vision.meaning import Described, Meaning, Reading
from fourfold.vision.shapes import as_opened, model_size
from fourfold.vision.ultralytics import read_export_notes

if TYPE_CHECKING:
    from fourfold.runtime.tensor_info import TensorInfo


def answer_in_frame(answer: Answer, fit: FrameFit, frame: Size) -> Answer:
    """Convert coordinates to fractions of the photograph, and cut masks to it."""
    return replace(
        answer,
        boxes=tuple(_box(one, fit, frame) for one in answer.boxes),
        key_points=tuple(
            replace(one, points=_points(one.points, fit, frame)) for one in answer.key_points
        ),
        masks=tuple(_mask(one, fit, frame) for one in answer.masks),
        pictures=tuple(_picture(one, fit) for one in answer.pictures),
        size=frame,
    )


def clip_answer(answer: Answer, points: bool) -> Answer:
    """Clip boxes to the photograph, and with `points` their key points. Oriented boxes are not
    clipped.
    """
    return replace(answer, boxes=tuple(_clipped_box(one, points) for one in answer.boxes))


def _clipped_box(box: Box, points: bool) -> Box:
    if box.turned:
        return box
    top, left, bottom, right = (_inside(one) for one in box.corners)
    inside = _clipped(box.points) if points else box.points
    return replace(box, corners=(top, left, bottom, right), points=inside)


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


def _picture(picture: MadePicture, fit: FrameFit) -> MadePicture:
    """Cut off the bars around the photograph, so that the picture has its aspect ratio."""
    rows, columns = _visible(fit, picture.pixels.shape[:2])
    return replace(picture, pixels=picture.pixels[rows, columns])


def _visible(fit: FrameFit, shape: Shape) -> tuple[slice, slice]:
    """Return the rows and columns of an output that the photograph covers, without bars."""
    sides = zip(fit.offset, fit.size, fit.target, shape, strict=True)
    rows, columns = (
        slice(
            round(offset / target * count),
            max(round((offset + size) / target * count), round(offset / target * count) + 1),
        )
        for offset, size, target, count in sides
    )
    return rows, columns


def _mask(mask: Mask, fit: FrameFit, frame: Size) -> Mask:
    """Cut off the bars around the photograph and set the corners of the visible part."""
    rows, columns = _visible(fit, mask.classes.shape)
    top, left, height, width = fit.box
    bottom, right = top + height, left + width
    corners = (top / frame[0], left / frame[1], bottom / frame[0], right / frame[1])
    return replace(mask, classes=mask.classes[rows, columns], corners=corners)


# Ordered by strength of evidence; families that only the numbers identify come last.
FAMILIES: tuple[Callable[[Described], Meaning | None], ...] = (
    processed_outputs,
    picked_detections,
    labelled_scores,
    embedding,
    mediapipe_detector,
    mediapipe_landmarks,
    raw_ssd,
    ultraface,
    yolo_boxes_of_cells,
    yolo_raw_heads,
    picked_rows,
    fastestdet,
    posenet,
    movenet,
    large_output,
    single_row,
)

_INFINITY = 1e6  # replaces infinite numbers


def find_meaning(model: Described) -> Meaning | None:
    """Return what a model's outputs stand for, or None if it is unknown.

    The metadata, the shapes and the known model families are considered.

    Args:
        model: A session, or another description of inputs and outputs.
    """
    opened = as_opened(model)
    return next((meaning for one in FAMILIES if (meaning := one(opened)) is not None), None)


def read_answer(
    model: Described,
    outputs: Mapping[str, np.ndarray],
    labels: Sequence[str] = (),
    *,
    top: int = 5,
    score: float | None = None,
    fit: FrameFit | None = None,
    frame: Size | None = None,
) -> Answer:
    """Decode the outputs of a run.

    Args:
        model: The session that ran, or a description of its inputs and outputs.
        outputs: The arrays that `session.run` returned, by name.
        labels: Class labels; by default those of the model's metadata, or of the dataset that
            models of its family are trained on.
        top: Number of classes to return.
        score: Minimum score; by default that of the model family.
        fit: Where the photograph lay in the model's input picture, if it did not fill it.
        frame: Height and width of the photograph.
    """
    model = as_opened(model)
    meaning = find_meaning(model)
    unknown = _unknown(model, meaning, outputs)
    if meaning is None:
        return Answer(unknown=unknown, size=frame)
    real = {
        name: _real(info, outputs) for name, info in _output_infos(model, meaning.outputs).items()
    }
    numbers, note = _finite(real)
    texts = tuple(labels) or read_export_notes(model.metadata).names
    reading = Reading(numbers, texts, bool(labels), model_size(model), score, top, meaning.datasets)
    found = meaning.decode(reading).with_notes(note, _names_note(reading))
    unknown = (*found.unknown, *unknown)
    values = {one.name: getattr(found, one.name) for one in fields(found)} | {"unknown": unknown}
    if found.unknown:  # the numbers contradict what the shapes suggested
        return Answer(**values, size=frame)
    answer = Answer(**values, family=meaning.family, told_by=meaning.told_by, kinds=meaning.kinds)
    answer = replace(answer, size=frame)
    if fit is not None and frame is not None:
        answer = answer_in_frame(answer, fit, frame)
    return clip_answer(answer, meaning.clips)


def _names_note(reading: Reading) -> str:
    names = ", ".join(sorted(reading.named_by))
    return f"class names of {names}, as the model has no labels" if names else ""


def check_labels(model: Described, labels: Sequence[str]) -> None:
    """Raise InputError if the labels cannot be those of the model, before it runs.

    Labels of models that return class numbers are checked when the numbers are known.
    """
    opened = as_opened(model)
    zeros = {info.name: np.zeros([max(size, 1) for size in info.shape]) for info in opened.outputs}
    with np.errstate(all="ignore"):
        read_answer(opened, zeros, labels)


def _output_infos(model: Described, names: Sequence[str]) -> dict[str, TensorInfo]:
    infos = {info.name: info for info in model.outputs}
    return {name: infos[name] for name in names}


def _unknown(
    model: Described, meaning: Meaning | None, outputs: Mapping[str, np.ndarray]
) -> tuple[str, ...]:
    decoded = () if meaning is None else meaning.outputs
    for name in decoded:
        if name not in outputs:
            what, why = (
                f"output {name!r} is missing",
                f"{meaning.family if meaning else ''} needs it",
            )
            raise InputError(what, why, "pass all outputs that session.run returned")
    return tuple(info.name for info in model.outputs if info.name not in decoded)


def _real(info: TensorInfo, outputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return dequantized numbers, calibrated if the metadata define a calibration."""
    numbers = info.dequantize(outputs[info.name])
    calibration = None if info.metadata is None else info.metadata.calibration
    return numbers if calibration is None else calibration.apply(numbers)


def _finite(real: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], str]:
    """Replace NaN and infinity, and return a note if there were any (often an fp16 overflow)."""
    broken = {name: int(np.count_nonzero(~np.isfinite(array))) for name, array in real.items()}
    numbers = {
        name: np.nan_to_num(array, nan=0.0, posinf=_INFINITY, neginf=-_INFINITY)
        if broken[name]
        else array
        for name, array in real.items()
    }
    counts = ", ".join(f"{count} of {name}" for name, count in broken.items() if count)
    return numbers, f"values that are NaN or infinite: {counts}" if counts else ""

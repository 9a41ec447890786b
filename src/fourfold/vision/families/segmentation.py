"""Outputs with one value or more per pixel: class maps (DeepLab), masks, pictures."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from fourfold.types import Shape
from fourfold.vision.class_names import PASCAL_VOC
from fourfold.vision.families.yolo import YOLO_SCALING
from fourfold.vision.found import Found, MadePicture, Mask
from fourfold.vision.meaning import (
    BACKGROUNDS,
    GUESSED,
    MASKS,
    METADATA,
    PICTURES,
    SHAPES,
    Described,
    Meaning,
    PictureScaling,
    Reading,
)
from fourfold.vision.scores import as_fractions
from fourfold.vision.shapes import (
    CHANNELS,
    MIN_SIDE_PIXELS,
    picture_channels,
    picture_input,
    picture_size,
)
from fourfold.vision.ultralytics import SEMANTIC, read_export_notes

if TYPE_CHECKING:
    from fourfold.runtime.tensor_info import TensorInfo

MAX_CLASSES = 256
MAX_MASK_STRIDE = 8  # pixels of the picture per mask pixel; detector grids are coarser
LIKELY = 0.5
_DEEPLAB = {257: 21, 513: 21}  # number of classes by the side of the picture
# Ranges of the pixels of a made picture: low, high, tolerance, and the minimum of the brightest.
_RANGES = ((0, 1, 0.2, 0), (-1, 1, 0.2, 0), (0, 255, 64, 64))
_SELFIES = ((256, 256), (144, 256))


def large_output(model: Described) -> Meaning | None:
    """Identify the only output if it has one number or more for each pixel."""
    source = picture_input(model.inputs)
    if len(model.outputs) != 1 or source is None:
        return None
    (output,) = model.outputs
    shape = output.shape
    if len(shape) == 3 and min(shape[1:]) >= MIN_SIDE_PIXELS and output.dtype.kind in "iu":
        if read_export_notes(model.metadata).task == SEMANTIC:
            return replace(
                class_map("YOLO segmentation map", METADATA, output), scaling=YOLO_SCALING
            )
        family = "DeepLab" if shape[1] in _DEEPLAB else "a class map"
        return class_map(family, METADATA if output.labels else SHAPES, output)
    if len(shape) != 4:
        return None
    last = _channels_last(source, shape)
    channels = shape[3] if last else shape[1]
    sides = shape[1:3] if last else shape[2:]
    size = picture_size(source)
    coarse = size is not None and max(size) > MAX_MASK_STRIDE * max(sides)
    small = min(sides) < MIN_SIDE_PIXELS or coarse or channels > MAX_CLASSES
    if small and len(output.labels) != channels:
        return None
    return _of_channels(source, output, channels, last)


def _channels_last(source: TensorInfo, shape: Shape) -> bool:
    """Return True if the channels are the last axis.

    The layout of the input picture decides. Frames do not define it; masks then have fewer channels
    than rows.
    """
    if source.pixels:
        return shape[3] <= shape[1]
    return source.shape[3] in CHANNELS


def _of_channels(source: TensorInfo, output: TensorInfo, channels: int, last: bool) -> Meaning:
    labelled = len(output.labels) == channels
    told_by = METADATA if labelled else SHAPES
    taken = picture_channels(source)
    names = (output.name,)
    if channels in CHANNELS and channels == taken and not labelled:
        decode = partial(_decode_picture, output.name, last)
        family = "an output like the input picture"
        # A letterbox keeps the aspect ratio of what the model draws. The range is a guess.
        return Meaning(
            family,
            told_by,
            (MASKS, PICTURES),
            names,
            decode,
            PictureScaling(0.0, 1.0, "letterbox"),
            scaled_by=GUESSED,
            is_hint=True,
        )
    if channels == 1:
        selfie = output.shape[1:3] in _SELFIES and picture_size(source) == output.shape[1:3]
        family = "MediaPipe's selfie segmentation" if selfie else "a mask"
        scaling = PictureScaling(0.0, 1.0) if selfie else None
        what = "person" if selfie else ""
        decode = partial(_decode_mask, output, last, what)
        return Meaning(family, told_by, (MASKS,), names, decode, scaling)
    deeplab = last and _DEEPLAB.get(output.shape[1]) == channels
    family = "DeepLab" if deeplab else f"scores of {channels} classes per pixel"
    scaling = PictureScaling(-1.0, 1.0) if deeplab else None
    decode = partial(_decode_classes, output, last)
    datasets = (PASCAL_VOC,) if deeplab else ()
    return Meaning(family, told_by, (MASKS,), names, decode, scaling, datasets=datasets)


def class_map(family: str, told_by: str, output: TensorInfo) -> Meaning:
    """Return the meaning of an output with the class number of each pixel."""
    decode, names = partial(_decode_map, output), (output.name,)
    is_deeplab = _DEEPLAB.get(output.shape[1]) is not None
    scaling = PictureScaling(-1.0, 1.0) if is_deeplab else None
    datasets = (PASCAL_VOC,) if is_deeplab else ()
    return Meaning(family, told_by, (MASKS,), names, decode, scaling, datasets=datasets)


def _decode_map(output: TensorInfo, reading: Reading) -> Found:
    classes = reading.numbers[output.name][0].astype(np.int64)
    labels = reading.value_labels(output.labels, int(classes.max(initial=0)))
    return Found(masks=(_mask(classes, labels),))


def _mask(classes: np.ndarray, labels: tuple[str, ...]) -> Mask:
    """Return a mask whose first class is the background, unless its label says otherwise."""
    return Mask(classes, labels, background=not labels or labels[0] in BACKGROUNDS)


def _decode_classes(output: TensorInfo, last: bool, reading: Reading) -> Found:
    scores = _rows(reading.numbers[output.name], last)
    classes = scores.argmax(-1)
    labels = reading.class_labels(scores.shape[-1], output.labels)
    return Found(masks=(_mask(classes, labels),))


def _decode_mask(output: TensorInfo, last: bool, what: str, reading: Reading) -> Found:
    scores, note = as_fractions(_rows(reading.numbers[output.name], last)[..., 0])
    least = LIKELY if reading.score is None else reading.score
    labels = reading.labels if len(reading.labels) == 2 else ("background", what or "mask")
    return Found(masks=(Mask((scores >= least).astype(np.int64), labels),)).with_notes(note)


def _rows(numbers: np.ndarray, last: bool) -> np.ndarray:
    """Return the first picture as [height, width, channels]."""
    return numbers[0] if last else np.moveaxis(numbers[0], 0, -1)


def _decode_picture(name: str, last: bool, reading: Reading) -> Found:
    """Return a picture if the numbers can be pixels, else a class map from scores."""
    numbers = _rows(reading.numbers[name], last)
    low, high = float(numbers.min(initial=0)), float(numbers.max(initial=0))
    for start, end, slack, least in _RANGES:
        if start - slack <= low and least <= high <= end + slack:
            note = f"assumed pixel values from {start} to {end}, from the range of the output"
            pixels = np.rint((numbers - start) * (255 / (end - start))).clip(0, 255)
            return Found(pictures=(MadePicture(pixels.astype(np.uint8), name),)).with_notes(note)
    labels = reading.class_labels(numbers.shape[-1])
    note = f"values from {low:.3g} to {high:.3g} are no pixels: assumed to be class scores"
    return Found(masks=(_mask(numbers.argmax(-1), labels),)).with_notes(note)

"""Class scores and embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fourfold.vision import class_names
from fourfold.vision.found import ClassScore, Found, label_for
from fourfold.vision.meaning import (
    CLASSES,
    EMBEDDING,
    IMAGENET_SCALING,
    METADATA,
    SHAPES,
    Described,
    Meaning,
    PictureScaling,
    Reading,
)
from fourfold.vision.scores import are_fractions, are_probabilities, has_unit_length
from fourfold.vision.shapes import picture_channels, picture_input, squeezed
from fourfold.vision.ultralytics import CLASSIFY, read_export_notes

if TYPE_CHECKING:
    from fourfold.runtime.tensor_info import TensorInfo

COLORS = 3
IMAGENET = (1000, 1001)  # number of classes, without and with a background class
EMBEDS = "embed"
NAME, FILE = "the name of its output", "the name of its file"
# Classifiers by a part of the name of their output or file, as TensorFlow publishes them (NHWC).
_NAMED = {
    "mobilenet": ("MobileNet", PictureScaling(-1.0, 1.0)),
    "inception": ("Inception", PictureScaling(-1.0, 1.0)),
    "nasnet": ("NASNet", PictureScaling(-1.0, 1.0)),
    "efficientnetlite": ("EfficientNet-Lite", PictureScaling(-127 / 128, 1.0)),
}


def labelled_scores(model: Described) -> Meaning | None:
    """Identify outputs of one row each that have as many labels in the metadata."""
    notes = read_export_notes(model.metadata)
    rows = [
        info
        for info in model.outputs
        if _count(info) and _count(info) in (len(info.labels), len(notes.names))
    ]
    if not rows:
        return None
    names, decode = tuple(info.name for info in rows), partial(_decode_rows, rows)
    if notes.task == CLASSIFY:  # it is trained on the center of a photograph
        scaling, family = PictureScaling(0.0, 1.0, "crop"), "YOLO classification"
        return Meaning(family, METADATA, (CLASSES,), names, decode, scaling)
    meaning = Meaning("class scores", METADATA, (CLASSES,), names, decode)
    return _with_usual_scaling(model, rows[0], meaning)


def embedding(model: Described) -> Meaning | None:
    """Identify an embedding by the name of the model or its output."""
    titles = [model.metadata.name, *(info.name for info in model.outputs)]
    if len(model.outputs) != 1 or not any(EMBEDS in title.lower() for title in titles):
        return None
    told_by = METADATA if EMBEDS in model.metadata.name.lower() else NAME
    names = (model.outputs[0].name,)
    return Meaning("an embedding", told_by, (EMBEDDING,), names, partial(_decode_embedding, *names))


def _decode_embedding(name: str, reading: Reading) -> Found:
    numbers = reading.numbers[name]
    unit = " of unit length" if has_unit_length(numbers) else ""
    return Found().with_notes(
        f"{numbers.size} numbers{unit}: compare embeddings by cosine similarity"
    )


def single_row(model: Described) -> Meaning | None:
    """Identify a single output of one row, whose values must say what it is."""
    if len(model.outputs) != 1 or not _count(model.outputs[0]):
        return None
    (output,) = model.outputs
    if any(info.shape == output.shape for info in model.inputs):
        return None  # the output looks like the input: these are no class scores
    decode, names = partial(_decode_row, output), (output.name,)
    named = _named_family(model, output)
    family, told_by = (named.family, named.told_by) if named else ("a row of numbers", SHAPES)
    datasets = _usual_datasets(model)
    meaning = Meaning(family, told_by, (CLASSES,), names, decode, datasets=datasets)
    return _with_usual_scaling(model, output, meaning)


def _usual_datasets(model: Described) -> tuple[str, ...]:
    """Return the dataset that classifiers of color pictures, or of sounds, are trained on."""
    source = picture_input(model.inputs)
    if source is not None:
        return (class_names.IMAGENET,) if picture_channels(source) == COLORS else ()
    shapes = [squeezed(info.shape) for info in model.inputs]
    is_sound = len(shapes) == 1 and len(shapes[0]) == 1 and model.inputs[0].dtype.kind == "f"
    return (class_names.AUDIOSET,) if is_sound else ()


class _Named(NamedTuple):
    """A family of classifiers that a name contains."""

    family: str
    told_by: str
    scaling: PictureScaling


def _named_family(model: Described, output: TensorInfo) -> _Named | None:
    """Return the family that the name of the output contains, or that of the file of a model that
    takes color pictures.
    """
    source = picture_input(model.inputs)
    in_color = source is not None and picture_channels(source) == COLORS
    names = {NAME: output.name, FILE: getattr(model, "title", "") if in_color else ""}
    for told_by, name in names.items():
        plain = name.lower().replace("_", "").replace("-", "")
        for part, (family, scaling) in _NAMED.items():
            if part in plain:
                return _Named(family, told_by, scaling)
    return None


def _with_usual_scaling(model: Described, output: TensorInfo, meaning: Meaning) -> Meaning:
    """Return the meaning with the scaling that names and shapes suggest.

    Files with channels first come from PyTorch, whose ImageNet classifiers share one scaling.
    """
    source = picture_input(model.inputs)
    if source is None or not source.shape or source.pixels:
        return meaning
    named = _named_family(model, output)
    if named is not None and source.shape[-1] == COLORS:
        hint = ", judging by the file's name" if named.told_by == FILE else ""
        scaled_by = f"as is usual for {named.family}{hint}"
        is_hint = named.told_by == FILE
        return replace(meaning, scaling=named.scaling, scaled_by=scaled_by, is_hint=is_hint)
    if _count(output) in IMAGENET and source.shape[1] == COLORS and source.dtype.kind == "f":
        why = "as is usual for ImageNet classifiers with channels first"
        return replace(meaning, scaling=IMAGENET_SCALING, scaled_by=why, is_hint=True)
    return meaning


def _count(info: TensorInfo) -> int:
    """Return the number of classes that an output can have scores for."""
    shape = squeezed(info.shape)
    return shape[0] if len(shape) == 1 and info.dtype.kind in "fiu" else 0


def _decode_rows(outputs: Sequence[TensorInfo], reading: Reading) -> Found:
    classes: list[ClassScore] = []
    for info in outputs:
        scores = reading.numbers[info.name].ravel()
        least = info.metadata.threshold if info.metadata is not None else None
        classes += best_classes(info, scores, reading, least)
    return Found(classes=tuple(classes))


def best_classes(
    info: TensorInfo, scores: np.ndarray, reading: Reading, least: float | None = None
) -> list[ClassScore]:
    labels = reading.class_labels(scores.size, info.labels)
    least = least if reading.score is None else reading.score
    order = np.argsort(-scores, kind="stable")[: reading.top]
    return [
        ClassScore(int(number), label_for(labels, int(number)), float(scores[number]), info.name)
        for number in order
        if least is None or scores[number] >= least
    ]


def _decode_row(info: TensorInfo, reading: Reading) -> Found:
    scores = reading.numbers[info.name].ravel()
    why = _why_scores(scores, reading)
    if not why:
        return Found(unknown=(info.name,))
    classes = tuple(best_classes(info, scores, reading))
    return Found(classes=classes).with_notes(f"assumed to be class scores: {why}")


def _why_scores(scores: np.ndarray, reading: Reading) -> str:
    """Return why a row is taken as class scores, or '' if nothing suggests it."""
    if reading.given_labels:
        return "labels were passed"
    if are_probabilities(scores):
        return "the values are from 0 to 1 and sum to 1"
    if scores.size in IMAGENET:
        return f"ImageNet has {scores.size} classes; the values are not probabilities"
    if are_fractions(scores) and not has_unit_length(scores):
        return "the values are from 0 to 1"
    return ""

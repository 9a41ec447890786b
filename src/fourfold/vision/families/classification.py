"""Class scores and embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from fourfold.vision.found import ClassScore, Found, label_for
from fourfold.vision.meaning import (
    CLASSES,
    EMBEDDING,
    METADATA,
    SHAPES,
    Described,
    Meaning,
    PictureScaling,
    Reading,
)
from fourfold.vision.scores import are_fractions, are_probabilities, has_unit_length
from fourfold.vision.shapes import squeezed
from fourfold.vision.ultralytics import CLASSIFY, read_export_notes

if TYPE_CHECKING:
    from fourfold.runtime.tensor_info import TensorInfo

IMAGENET = (1000, 1001)  # number of classes, without and with a background class
EMBEDS, MOBILENET = "embed", "mobilenet"
NAME = "the name of its output"


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
    return Meaning("class scores", METADATA, (CLASSES,), names, decode)


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
    if MOBILENET in output.name.lower():
        return Meaning("MobileNet", NAME, (CLASSES,), names, decode, PictureScaling(-1.0, 1.0))
    return Meaning("a row of numbers", SHAPES, (CLASSES,), names, decode)


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

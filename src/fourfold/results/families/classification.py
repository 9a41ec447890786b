"""Scores of classes, embeddings, and text."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from fourfold.results.found import ClassScore, Found, label_at
from fourfold.results.meaning import (
    CLASSES,
    EMBEDDING,
    METADATA,
    SHAPES,
    Described,
    Meaning,
    PictureScaling,
    Reading,
)
from fourfold.results.scores import are_fractions, are_of_unit_length, are_probabilities
from fourfold.results.shapes import squeezed
from fourfold.results.ultralytics import CLASSIFY, read_export_notes

if TYPE_CHECKING:
    from fourfold.runtime.tensor_info import TensorInfo

IMAGENET = (1000, 1001)  # classes, without and with one for none of them
EMBEDS, MOBILENET = "embed", "mobilenet"
NAME = "the name of its output"


def labelled_scores(model: Described) -> Meaning | None:
    """Outputs of one row each, as long as the labels that metadata have for them."""
    notes = read_export_notes(model.metadata)
    found = [
        info
        for info in model.outputs
        if _count(info) and _count(info) in (len(info.labels), len(notes.names))
    ]
    if not found:
        return None
    names, decode = tuple(info.name for info in found), partial(_decode_rows, found)
    if notes.task == CLASSIFY:  # it sees the middle of a photograph
        scaling, family = PictureScaling(0.0, 1.0, "crop"), "YOLO for classes"
        return Meaning(family, METADATA, (CLASSES,), names, decode, scaling)
    return Meaning("scores of classes", METADATA, (CLASSES,), names, decode)


def embedding(model: Described) -> Meaning | None:
    """Said by the name of the model or of its output."""
    titles = [model.metadata.name, *(info.name for info in model.outputs)]
    if len(model.outputs) != 1 or not any(EMBEDS in title.lower() for title in titles):
        return None
    told_by = METADATA if EMBEDS in model.metadata.name.lower() else NAME
    names = (model.outputs[0].name,)
    return Meaning("an embedding", told_by, (EMBEDDING,), names, partial(_decode_embedding, *names))


def _decode_embedding(name: str, reading: Reading) -> Found:
    numbers = reading.numbers[name]
    unit = ", of length one" if are_of_unit_length(numbers) else ""
    return Found().noting(f"{numbers.size} numbers{unit}: compare two embeddings by their cosine")


def single_row(model: Described) -> Meaning | None:
    """One output of one row: what it is, its numbers have to tell."""
    if len(model.outputs) != 1 or not _count(model.outputs[0]):
        return None
    (output,) = model.outputs
    if any(info.shape == output.shape for info in model.inputs):
        return None  # a row that becomes another one: no scores of anything
    decode, names = partial(_decode_row, output), (output.name,)
    if MOBILENET in output.name.lower():
        return Meaning("MobileNet", NAME, (CLASSES,), names, decode, PictureScaling(-1.0, 1.0))
    return Meaning("a row of numbers", SHAPES, (CLASSES,), names, decode)


def _count(info: TensorInfo) -> int:
    """How many classes an output can have scores for."""
    shape = squeezed(info.shape)
    return shape[0] if len(shape) == 1 and info.dtype.kind in "fiu" else 0


def _decode_rows(outputs: Sequence[TensorInfo], reading: Reading) -> Found:
    found: list[ClassScore] = []
    for info in outputs:
        scores = reading.numbers[info.name].ravel()
        least = info.metadata.threshold if info.metadata is not None else None
        found += best_classes(info, scores, reading, least)
    return Found(classes=tuple(found))


def best_classes(
    info: TensorInfo, scores: np.ndarray, reading: Reading, least: float | None = None
) -> list[ClassScore]:
    labels = reading.class_labels(scores.size, info.labels)
    least = least if reading.score is None else reading.score
    order = np.argsort(-scores, kind="stable")[: reading.top]
    return [
        ClassScore(int(place), label_at(labels, int(place)), float(scores[place]), info.name)
        for place in order
        if least is None or scores[place] >= least
    ]


def _decode_row(info: TensorInfo, reading: Reading) -> Found:
    scores = reading.numbers[info.name].ravel()
    why = _why_scores(scores, reading)
    if not why:
        return Found(unknown=(info.name,))
    found = tuple(best_classes(info, scores, reading))
    return Found(classes=found).noting(f"taken as scores of classes: {why}")


def _why_scores(scores: np.ndarray, reading: Reading) -> str:
    """What tells that a row holds scores of classes; '' where nothing does."""
    if reading.given_labels:
        return "labels were given"
    if are_probabilities(scores):
        return "they go from 0 to 1 and share a whole"
    if scores.size in IMAGENET:
        return f"there are {scores.size}, as ImageNet has classes; they are no probabilities"
    if are_fractions(scores) and not are_of_unit_length(scores):
        return "they go from 0 to 1"
    return ""

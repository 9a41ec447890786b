"""Mean average precision on pictures with COCO annotations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fourfold.errors import InputError
from fourfold.tools.accuracy.average_precision import PictureBoxes, average_precisions
from fourfold.tools.accuracy.classification import plain_name
from fourfold.tools.accuracy.contender import AnswerLimits, Contender
from fourfold.tools.accuracy.dataset import Dataset, LabelledPicture, Truth
from fourfold.vision.answer import Answer
from fourfold.vision.found import Box
from fourfold.vision.meaning import BOXES, Described
from fourfold.vision.read import find_meaning
from fourfold.vision.ultralytics import read_export_notes

DEFAULT_SCORE = 0.001  # average precision also counts boxes with low scores
_MAX_LISTED = 5  # names in a note
_NUMBERED = "the model has no labels: its classes are the dataset's categories in order of their id"


class Detections(NamedTuple):
    """The boxes that were found in a picture, with their category ids, and the annotated ones."""

    boxes: np.ndarray
    scores: np.ndarray
    categories: np.ndarray
    truth: Truth

    def of_category(self, category: int) -> PictureBoxes:
        found, real = self.categories == category, self.truth.categories == category
        truth = self.truth
        return PictureBoxes(
            self.boxes[found], self.scores[found], truth.boxes[real], truth.crowds[real]
        )


class DetectionTask:
    """Judges the answers of detectors by annotated boxes."""

    def __init__(
        self,
        dataset: Dataset,
        contenders: Sequence[Contender],
        labels: Sequence[str],
        score: float | None,
    ) -> None:
        self.limits = AnswerLimits(labels, 0, DEFAULT_SCORE if score is None else score)
        for one in contenders:
            _require_boxes(one)
        self._categories = dataset.categories
        self._ids = {plain_name(name): one for one, name in dataset.categories.items()}
        self._order = sorted(dataset.categories)
        self._numbered, self._unmatched, self._matches = False, set[str](), False
        self._judged, self._notes = self._find_judged(dataset, contenders[0].model, labels)

    def _find_judged(
        self, dataset: Dataset, model: Described, labels: Sequence[str]
    ) -> tuple[list[int], tuple[str, ...]]:
        """Return the categories that have annotations and that the model has, with a note on those
        that it does not have.
        """
        truths = [one.truth.categories for one in dataset.pictures if one.truth is not None]
        annotated = sorted({int(one) for ids in truths for one in ids})
        texts = {plain_name(one) for one in labels or _known_labels(model)}
        if not texts:
            return annotated, ()
        judged = [one for one in annotated if plain_name(self._categories[one]) in texts]
        missing = [self._categories[one] for one in annotated if one not in judged]
        if not judged:
            why = f"the categories are {_listed(missing) or 'without annotations'}"
            fix = "pass the names of the model's classes: labels=NAMES"
            raise InputError("the model has no class of the dataset", why, fix)
        note = f"left out, because the model does not have these categories: {_listed(missing)}"
        return judged, (note,) if missing else ()

    @property
    def notes(self) -> tuple[str, ...]:
        notes = [*self._notes, *([_NUMBERED] if self._numbered else [])]
        if self._unmatched and not self._matches:
            names = _listed(sorted(self._unmatched))
            notes.append(f"no detected object has a category of the dataset: {names}")
        return tuple(notes)

    def judge(self, place: int, picture: LabelledPicture, answer: Answer) -> Detections:
        """Return the boxes of an answer in pixels of its picture."""
        assert picture.truth is not None
        assert answer.size is not None
        kept = [(box, self._category(box)) for box in answer.boxes]
        found = [(box, category) for box, category in kept if category is not None]
        corners = np.array([box.pixels(answer.size) for box, _ in found]).reshape(-1, 4)
        top, left, bottom, right = corners.T
        return Detections(
            np.stack([left, top, right - left, bottom - top], 1),
            np.array([box.score for box, _ in found]),
            np.array([category for _, category in found], int),
            picture.truth,
        )

    def _category(self, box: Box) -> int | None:
        """Return the category id of a box: by its label, or by its number without labels."""
        if not box.label:
            self._numbered = True
            return self._order[box.number] if 0 <= box.number < len(self._order) else None
        category = self._ids.get(plain_name(box.label))
        if category is None:
            self._unmatched.add(box.label)
        else:
            self._matches = True
        return category

    def scores(self, place: int, pictures: Sequence[Detections]) -> dict[str, float]:
        """Return the mean average precision at IoU 0.50 to 0.95, and at 0.50."""
        curves = [*self._by_category(pictures).values()]
        if not curves:
            return {"mAP": 0.0, "mAP 50": 0.0}
        return {"mAP": float(np.mean(curves)), "mAP 50": float(np.mean([one[0] for one in curves]))}

    def classes(self, place: int, pictures: Sequence[Detections]) -> dict[str, float]:
        """Return the average precision of each category that the pictures have."""
        curves = self._by_category(pictures).items()
        return {self._categories[one]: float(np.mean(curve)) for one, curve in curves}

    def _by_category(self, pictures: Sequence[Detections]) -> Mapping[int, np.ndarray]:
        curves = {
            one: average_precisions(picture.of_category(one) for picture in pictures)
            for one in self._judged
        }
        return {one: curve for one, curve in curves.items() if curve is not None}


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return f"{', '.join(names[:_MAX_LISTED])}{more}"


def _require_boxes(contender: Contender) -> None:
    meaning = find_meaning(contender.model)
    if meaning is None or BOXES not in meaning.kinds:
        kinds = "is unknown" if meaning is None else f"is {', '.join(meaning.kinds)}"
        what, why = "the model does not find boxes", f"the meaning of its outputs {kinds}"
        fix = "pass a folder with one folder of pictures per class for a model that classifies"
        raise InputError(what, why, fix)


def _known_labels(model: Described) -> tuple[str, ...]:
    """Return the labels in a model's metadata; empty if it has none."""
    names = read_export_notes(model.metadata).names
    return names or tuple(label for info in model.outputs for label in info.labels)

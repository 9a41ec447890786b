"""Top-1 and top-5 accuracy on pictures that have the name of their class as folder."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fourfold.errors import InputError, close_names
from fourfold.tools.accuracy.contender import AnswerLimits, Contender
from fourfold.tools.accuracy.dataset import Dataset, LabelledPicture
from fourfold.vision.answer import Answer
from fourfold.vision.found import ClassScore
from fourfold.vision.meaning import CLASSES
from fourfold.vision.read import find_meaning, read_answer

TOP = 5
_ALL = 1_000_000  # classes
_MAX_LISTED = 5  # folders in a message


class Guess(NamedTuple):
    """The answer about one picture: its folder, the best class, and the rank of the right class
    among the best five, from 0; None if it is not among them.
    """

    folder: str
    best: str
    rank: int | None


def plain_name(text: str) -> str:
    """Return a label as it is compared: without case, with spaces instead of underscores."""
    return " ".join(text.replace("_", " ").casefold().split())


class ClassificationTask:
    """Judges the answers of classifiers by the folders of pictures."""

    def __init__(
        self, dataset: Dataset, contenders: Sequence[Contender], labels: Sequence[str]
    ) -> None:
        self.limits = AnswerLimits(labels, TOP, -np.inf)
        self.notes: tuple[str, ...] = ()
        self._classes = [_find_classes(one, labels) for one in contenders]
        folders = dataset.folders
        self._numbers = [folder_numbers(folders, classes) for classes in self._classes]

    def judge(self, place: int, picture: LabelledPicture, answer: Answer) -> Guess:
        """Return what the contender at this place guesses."""
        if not answer.classes:
            raise _no_classes()
        classes = [one for one in answer.classes if one.output == answer.classes[0].output]
        right = self._numbers[place][picture.folder]
        ranks = [rank for rank, one in enumerate(classes) if one.number == right]
        return Guess(picture.folder, classes[0].name, next(iter(ranks), None))

    def scores(self, place: int, guesses: Sequence[Guess]) -> dict[str, float]:
        """Return top-1, and top-5 if there are more classes than five."""
        ranks = [guess.rank for guess in guesses]
        scores = {"top-1": _share([rank == 0 for rank in ranks])}
        if len(self._classes[0]) > TOP:
            scores["top-5"] = _share([rank is not None for rank in ranks])
        return scores

    def classes(self, place: int, guesses: Sequence[Guess]) -> dict[str, float]:
        """Return top-1 of each folder."""
        hits = defaultdict(list)
        for guess in guesses:
            hits[guess.folder].append(guess.rank == 0)
        return {folder: _share(hits[folder]) for folder in sorted(hits)}


def _share(hits: Sequence[bool]) -> float:
    return sum(hits) / len(hits)


def _find_classes(contender: Contender, labels: Sequence[str]) -> tuple[ClassScore, ...]:
    """Return all classes of a model, before it runs."""
    model, meaning = contender.model, find_meaning(contender.model)
    if meaning is None or CLASSES not in meaning.kinds:
        kinds = "is unknown" if meaning is None else f"is {', '.join(meaning.kinds)}"
        what, why = "the model does not classify pictures", f"the meaning of its outputs {kinds}"
        fix = "pass COCO annotations for a detector, or labels=NAMES if its outputs are unknown"
        raise InputError(what, why, fix)
    zeros = {info.name: np.zeros(info.shape, info.dtype) for info in model.outputs}
    classes = read_answer(model, zeros, labels, top=_ALL, score=-np.inf).classes
    if not classes:
        raise _no_classes()
    return tuple(one for one in classes if one.output == classes[0].output)


def _no_classes() -> InputError:
    what, why = "the model's outputs are not known to be class scores", "they are no probabilities"
    return InputError(what, why, "pass the names of its classes: labels=NAMES")


def folder_numbers(folders: Sequence[str], classes: Sequence[ClassScore]) -> dict[str, int]:
    """Return the class number of each folder: by the label, by one of several names in it (as in
    'tabby, tabby cat'), or by the number itself.
    """
    by_name: dict[str, set[int]] = defaultdict(set)
    for one in classes:
        by_name[plain_name(one.label)].add(one.number)
    whole = set(by_name)
    for one in classes:
        for part in map(plain_name, one.label.split(",")):
            if part not in whole:  # a whole label takes precedence over a part of another
                by_name[part].add(one.number)
    by_name.pop("", None)
    numbers = {one.number for one in classes}
    found, unknown = {}, []
    for folder in folders:
        named = by_name.get(plain_name(folder), set())
        if len(named) > 1:
            what = f"the folder '{folder}' names several classes"
            why = f"the classes {', '.join(map(str, sorted(named)))} have this label"
            raise InputError(what, why, "name the folder by the number of its class")
        if named:
            found[folder] = next(iter(named))
        elif folder.isdecimal() and int(folder) in numbers:
            found[folder] = int(folder)
        else:
            unknown.append(folder)
    if unknown:
        raise _unknown_folders(unknown, by_name, len(numbers))
    return found


def _unknown_folders(
    unknown: Sequence[str], by_name: Mapping[str, object], count: int
) -> InputError:
    more = f" and {len(unknown) - _MAX_LISTED} more" if len(unknown) > _MAX_LISTED else ""
    titles = ", ".join(f"'{one}'" for one in unknown[:_MAX_LISTED])
    what = f"the model has no class for the folders {titles}{more}"
    close = close_names(plain_name(unknown[0]), by_name)
    if not by_name:
        why = f"its {count} classes have no labels"
        fix = f"pass labels=NAMES, or name folders by class numbers, from 0 to {count - 1}"
    else:
        similar = f", such as {' or '.join(map(repr, close))}" if close else ""
        why = f"each folder has the name of a label{similar}, or the number of a class"
        fix = "rename or move the folders, or pass labels=NAMES, the folder of each class in order"
    return InputError(what, why, fix)

"""Meaning: what is known of a model's outputs before it runs, and who makes an answer of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from fourfold.errors import InputError
from fourfold.results.found import Found, Size

if TYPE_CHECKING:
    from fourfold.metadata import ModelMetadata
    from fourfold.processing.option import Processing
    from fourfold.runtime.tensor_info import TensorInfo

METADATA, SHAPES, NAMES = "the model's metadata", "the shapes of its outputs", "names and shapes"
# The kinds of a meaning: fields of an answer, but for the last two.
CLASSES, BOXES, MASKS = "classes", "boxes", "masks"
KEY_POINTS, PICTURES, EMBEDDING = "key points", "pictures", "embedding"
BACKGROUNDS = ("???", "background", "__background__", "none", "")


class Described(Protocol):
    """A model by what it takes and gives: a session, for one."""

    @property
    def inputs(self) -> Sequence[TensorInfo]: ...
    @property
    def outputs(self) -> Sequence[TensorInfo]: ...
    @property
    def metadata(self) -> ModelMetadata: ...


class DescribedModel(NamedTuple):
    """The same of a model that is not open."""

    inputs: Sequence[TensorInfo]
    outputs: Sequence[TensorInfo]
    metadata: ModelMetadata


@dataclass(frozen=True)
class PictureScaling:
    """How models of a family take photographs: pixels from `low` to `high`, fitted so."""

    low: float
    high: float
    fit: str = "stretch"
    fill: float = 0.0
    order: str = "rgb"  # of colours, as the model takes them


@dataclass(frozen=True)
class Reading:
    """The numbers of a run, and what a caller said of how they are read.

    `size` is that of the model's own picture. `score` is the least that counts, None as usual for
    the family; `top` is how many classes are told.
    """

    numbers: Mapping[str, np.ndarray]
    labels: tuple[str, ...] = ()
    given_labels: bool = False  # whether they are the caller's, and so must fit
    size: Size | None = None
    score: float | None = None
    top: int = 5

    def least(self, usual: float) -> float:
        """The least score that counts, where the family has one that is usual."""
        return usual if self.score is None else self.score

    def class_labels(self, count: int, own: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Labels of so many classes: the caller's, or the model's own where they fit."""
        labels = self.labels or own
        if len(labels) == count + 1 and labels[0] in BACKGROUNDS:
            return labels[1:]
        if len(labels) == count:
            return labels
        if self.given_labels:
            what = f"{len(labels)} labels do not fit {count} classes"
            why = "each class has one label, or one more names the background first"
            raise InputError(what, why, "pass the labels that the model was trained with")
        return ()

    def value_labels(self, own: tuple[str, ...], highest: int) -> tuple[str, ...]:
        """Labels of numbers, of which the highest that came is known."""
        labels = self.labels or own
        if self.given_labels and highest >= len(labels):
            what = f"class {highest} has no label"
            why = f"there are labels of {len(labels)} classes"
            raise InputError(what, why, "pass the labels that the model was trained with")
        return labels

    def thing_labels(self, own: tuple[str, ...], highest: int) -> tuple[str, ...]:
        """The same of things that were detected: they are no background, and are not counted so."""
        if self.given_labels and self.labels[0] in BACKGROUNDS:
            return replace(self, labels=self.labels[1:]).value_labels(own, highest)
        return self.value_labels(own, highest)


Decode = Callable[[Reading], Found]


@dataclass(frozen=True)
class Meaning:
    """What outputs of a model mean: `decode` finds in their numbers what there is.

    `kinds` are what the answer can hold, `outputs` those that it is about. `scaling` is how
    photographs go in, `postprocess` what decodes the same on a device, `clips` whether boxes and
    points end where the photograph does.
    """

    family: str
    told_by: str
    kinds: tuple[str, ...]
    outputs: tuple[str, ...]
    decode: Decode = field(compare=False)
    scaling: PictureScaling | None = None
    postprocess: Processing | None = None
    clips: bool = False

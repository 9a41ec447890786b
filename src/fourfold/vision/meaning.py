"""Meaning: what a model's outputs stand for, known before it runs, and how to decode them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from fourfold.errors import InputError
from fourfold.vision.class_names import dataset_names, names_for_count
from fourfold.vision.found import Found, Size

if TYPE_CHECKING:
    from fourfold.graph.metadata import ModelMetadata
    from fourfold.processing.option import Processing
    from fourfold.runtime.tensor_info import TensorInfo

METADATA, SHAPES, NAMES = "the model's metadata", "the shapes of its outputs", "names and shapes"
# The kinds of a meaning. All but the last two are fields of an answer.
CLASSES, BOXES, MASKS = "classes", "boxes", "masks"
KEY_POINTS, PICTURES, EMBEDDING = "key points", "pictures", "embedding"
GUESSED = "which is a guess"  # the source of a scaling that nothing in the model defines
MAX_BYTE = 255
BACKGROUNDS = ("???", "background", "__background__", "none", "")


class Described(Protocol):
    """A model described by its inputs, outputs and metadata, such as a session."""

    @property
    def inputs(self) -> Sequence[TensorInfo]: ...
    @property
    def outputs(self) -> Sequence[TensorInfo]: ...
    @property
    def metadata(self) -> ModelMetadata: ...


class DescribedModel(NamedTuple):
    """Inputs, outputs and metadata of a model that is not open, and the name of its file."""

    inputs: Sequence[TensorInfo]
    outputs: Sequence[TensorInfo]
    metadata: ModelMetadata
    title: str = ""


@dataclass(frozen=True)
class PictureScaling:
    """How a model family takes photographs: the range of pixel values and the fit.

    With `mean` and `std` for each channel, pixels become (fraction - mean) / std, where `low` and
    `high` are the range of the fraction.
    """

    low: float
    high: float
    fit: str = "stretch"
    fill: float = 0.0
    order: str = "rgb"  # channel order of the model
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    @property
    def numbers(self) -> dict[str, Any]:
        """Mean and std of bytes, as arguments of `Pixels`."""
        width = MAX_BYTE / (self.high - self.low)
        if not self.mean:
            return {"mean": -self.low * width, "std": width}
        means = tuple((one - self.low) * width for one in self.mean)
        return {"mean": means, "std": tuple(one * width for one in self.std)}


# Classifiers of torchvision and timm, and most ONNX files made from them.
IMAGENET_SCALING = PictureScaling(
    0.0, 1.0, "crop", mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)
)


@dataclass(frozen=True)
class Reading:
    """The outputs of a run, and the caller's options for decoding them.

    `size` is the size of the model's input picture. `score` is the minimum score, None for the
    default of the family. `top` is the number of classes to return.
    """

    numbers: Mapping[str, np.ndarray]
    labels: tuple[str, ...] = ()
    given_labels: bool = False  # the caller passed the labels, so their number must match
    size: Size | None = None
    score: float | None = None
    top: int = 5
    datasets: tuple[str, ...] = ()  # whose class names a model without labels can have
    named_by: set[str] = field(default_factory=set, compare=False)  # datasets whose names were used

    def least(self, default: float) -> float:
        """Return the minimum score: the caller's, or the default of the family."""
        return default if self.score is None else self.score

    def class_labels(self, count: int, own: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return labels for `count` classes: the caller's, or the model's own if their number
        matches. A model without labels has those of its dataset.
        """
        labels = self.labels or own or self._dataset_labels(count)
        if len(labels) == count + 1 and labels[0] in BACKGROUNDS:
            return labels[1:]
        if len(labels) == count:
            return labels
        if self.given_labels:
            what = f"{len(labels)} labels do not fit {count} classes"
            why = "each class has one label, or one more names the background first"
            raise InputError(what, why, "pass the labels that the model was trained with")
        return ()

    def _dataset_labels(self, count: int | None = None) -> tuple[str, ...]:
        """Return the class names of the dataset with `count` classes; without it, all names of the
        first dataset.
        """
        for dataset in self.datasets:
            names = dataset_names(dataset) if count is None else names_for_count(dataset, count)
            if names:
                self.named_by.add(dataset)
                return names
        return ()

    def value_labels(self, own: tuple[str, ...], highest: int) -> tuple[str, ...]:
        """Return labels for class numbers up to `highest`."""
        labels = self.labels or own
        if not labels and self.datasets and highest < len(dataset_names(self.datasets[0])):
            return self._dataset_labels()
        if self.given_labels and highest >= len(labels):
            what = f"class {highest} has no label"
            why = f"there are only {len(labels)} labels"
            raise InputError(what, why, "pass the labels that the model was trained with")
        return labels

    def object_labels(self, own: tuple[str, ...], highest: int) -> tuple[str, ...]:
        """Return labels of detected objects, which do not count the background."""
        if self.given_labels and self.labels[0] in BACKGROUNDS:
            return replace(self, labels=self.labels[1:]).value_labels(own, highest)
        return self.value_labels(own, highest)


Decode = Callable[[Reading], Found]


@dataclass(frozen=True)
class Meaning:
    """The interpretation of a model's outputs.

    Attributes:
        family: The model family.
        told_by: What identified the family.
        kinds: What an answer can contain.
        outputs: The outputs that the answer is decoded from.
        decode: Decodes the output arrays.
        scaling: How photographs go in, or None if the family does not say.
        clips: True if key points of boxes are clipped to the photograph, as boxes always are.
        scaled_by: What the scaling follows from, such as "as is usual for MobileNet"; '' for the
            family.
        is_hint: True if only the name of a file or a layout suggests the scaling.
        postprocess: The `postprocess=` option that decodes the same on the device, or None.
        datasets: Datasets that such models are trained on. A model without labels gets the class
            names of the first one with as many classes.
    """

    family: str
    told_by: str
    kinds: tuple[str, ...]
    outputs: tuple[str, ...]
    decode: Decode = field(compare=False)
    scaling: PictureScaling | None = None
    postprocess: Processing | None = None
    clips: bool = False
    scaled_by: str = ""
    is_hint: bool = False
    datasets: tuple[str, ...] = ()

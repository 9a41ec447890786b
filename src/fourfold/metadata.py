"""What a model says of itself: names, descriptions, labels, scaling, and the ways to call it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from fourfold.errors import MALFORMED

AXIS, VALUE, VOCABULARY = "axis", "value", "vocabulary"


@dataclass(frozen=True)
class Signature:
    """A named way to call a model: its own names of inputs and outputs, each for one value."""

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    subgraph: int = 0


@dataclass(frozen=True)
class Normalization:
    """The model takes (number - mean) / std; one number for all channels, or one for each."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass(frozen=True)
class Labels:
    """Names in the order of a file's lines.

    Labels of an 'axis' belong to the places along the tensor's last axis, such as scores of
    classes; a 'value' n stands for the n-th label; a 'vocabulary' has the words that numbers stand
    for.
    """

    texts: tuple[str, ...]
    kind: str = AXIS
    locale: str = ""
    file: str = ""


@dataclass(frozen=True)
class AssociatedFile:
    """A file that comes with a model. `size` is None where the model names it but lacks it."""

    name: str
    kind: str = ""
    description: str = ""
    locale: str = ""
    version: str = ""
    size: int | None = None


@dataclass(frozen=True)
class ScoreCalibration:
    """How scores become comparable: scale / (1 + exp(-(slope * g(score) + offset))).

    g is `transform`: 'identity', 'log' or 'inverse logistic'. `curves` has (scale, slope, offset,
    least score) for each place along the last axis; scores below the least one, and those without
    a curve, become `default`.
    """

    transform: str = "identity"
    default: float = 0.0
    curves: tuple[tuple[float, ...], ...] = ()

    def apply(self, scores: np.ndarray) -> np.ndarray:
        """The calibrated scores, as floats; what has no curves stays as it is."""
        real = np.asarray(scores, np.float64)
        if not real.ndim or real.shape[-1] != len(self.curves):
            return real
        rows = [curve or (np.nan, 0.0, 0.0, -np.inf) for curve in self.curves]
        scale, slope, offset, least = np.array(rows, np.float64).T
        with np.errstate(all="ignore"):
            if self.transform == "log":
                moved = np.log(real)
            elif self.transform == "inverse logistic":
                moved = np.log(real) - np.log1p(-real)
            else:
                moved = real
            found = scale / (1 + np.exp(-(slope * moved + offset)))
        unusable = np.isnan(found) | (real < least)
        return np.where(unusable, self.default, found)


@dataclass(frozen=True)
class TensorMetadata:
    """What a model says of an input or output.

    `content` is 'image', 'audio', 'features', 'bounding boxes' or ''; `color` that of an image:
    'rgb', 'gray' or ''. `minimum` and `maximum` are those of the numbers that the tensor usually
    holds, one for all channels or one each. Scores below `threshold` mean nothing.
    """

    name: str = ""
    description: str = ""
    content: str = ""
    color: str = ""
    dimensions: tuple[str, ...] = ()
    normalization: Normalization | None = None
    minimum: tuple[float, ...] = ()
    maximum: tuple[float, ...] = ()
    threshold: float | None = None
    calibration: ScoreCalibration | None = None
    labels: tuple[Labels, ...] = ()
    files: tuple[AssociatedFile, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)

    def label_texts(self, locale: str = "", kind: str = AXIS) -> tuple[str, ...]:
        """The labels of a kind in a language ('en'), or the first ones; () where there are none."""
        found = [labels for labels in self.labels if labels.kind == kind]
        wanted = [labels for labels in found if labels.locale == locale]
        return next((labels.texts for labels in (*wanted, *found)), ())


@dataclass(frozen=True)
class ModelMetadata:
    """What a model says of itself. `inputs` and `outputs` are in the order of the session's; they
    are empty where nothing is known of any. `properties` are what else it says, in plain words.
    `problems` has a reason for everything that is there and could not be read.
    """

    name: str = ""
    description: str = ""
    version: str = ""
    author: str = ""
    licence: str = ""
    inputs: tuple[TensorMetadata, ...] = ()
    outputs: tuple[TensorMetadata, ...] = ()
    files: tuple[AssociatedFile, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether the model says anything."""
        return self != ModelMetadata()

    def to_json(self) -> dict[str, Any]:
        """All of it as plain data."""
        return asdict(self)


def tensor_at(tensors: Sequence[TensorMetadata], place: int) -> TensorMetadata | None:
    """That of an input or output by its place, where anything is said of it."""
    found = tensors[place] if place < len(tensors) else None
    return None if found == TensorMetadata() else found


Signatures = Mapping[str, Signature]


def write_about(metadata: ModelMetadata, signatures: Signatures) -> bytes:
    """Both as bytes, for files; b'' where there is nothing to be said."""
    if not metadata and not signatures:
        return b""
    record = {"metadata": metadata, "signatures": dict(signatures)}
    text = json.dumps(record, separators=(",", ":"), ensure_ascii=False, default=vars)
    return text.encode()


def read_about(content: bytes) -> tuple[ModelMetadata, Signatures]:
    """What `write_about` wrote."""
    if not content:
        return ModelMetadata(), {}
    try:
        record = json.loads(content)
        ways = {str(name): Signature(**one) for name, one in record["signatures"].items()}
        return _metadata(record["metadata"]), ways
    except MALFORMED as error:
        return ModelMetadata(problems=(f"the record of it does not fit: {error!r}",)), {}


def _metadata(record: Mapping[str, Any]) -> ModelMetadata:
    inputs, outputs = (tuple(map(_tensor, record[name])) for name in ("inputs", "outputs"))
    own = {"inputs": inputs, "outputs": outputs, "files": _files(record)}
    return ModelMetadata(**{**record, **own, "problems": tuple(record["problems"])})


def _files(record: Mapping[str, Any]) -> tuple[AssociatedFile, ...]:
    return tuple(AssociatedFile(**one) for one in record["files"])


def _tensor(record: Mapping[str, Any]) -> TensorMetadata:
    own: dict[str, Any] = {
        name: tuple(record[name]) for name in ("dimensions", "minimum", "maximum")
    }
    if record["normalization"] is not None:
        numbers = {name: tuple(item) for name, item in record["normalization"].items()}
        own["normalization"] = Normalization(**numbers)
    if record["calibration"] is not None:
        curves = tuple(map(tuple, record["calibration"]["curves"]))
        own["calibration"] = ScoreCalibration(**{**record["calibration"], "curves": curves})
    own["labels"] = tuple(
        Labels(**{**one, "texts": tuple(one["texts"])}) for one in record["labels"]
    )
    return TensorMetadata(**{**record, **own, "files": _files(record)})

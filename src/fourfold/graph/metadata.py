"""Metadata of a model: names, descriptions, labels, normalization and signatures."""

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
    """A named way to call a model: maps its input and output names to values."""

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    subgraph: int = 0


@dataclass(frozen=True)
class Normalization:
    """The model expects (number - mean) / std, with one value for all channels or one each."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass(frozen=True)
class Labels:
    """Label texts in the order of the lines of a label file.

    Labels of kind 'axis' belong to the positions along the tensor's last axis, such as class
    scores. For kind 'value', n stands for the n-th label. A 'vocabulary' maps token numbers to
    words.
    """

    texts: tuple[str, ...]
    kind: str = AXIS
    locale: str = ""
    file: str = ""


@dataclass(frozen=True)
class AssociatedFile:
    """A file attached to a model; `size` is None if the model names it but does not contain it."""

    name: str
    kind: str = ""
    description: str = ""
    locale: str = ""
    version: str = ""
    size: int | None = None


@dataclass(frozen=True)
class ScoreCalibration:
    """Calibrates scores: scale / (1 + exp(-(slope * g(score) + offset))).

    g is `transform`: 'identity', 'log' or 'inverse logistic'. `curves` has (scale, slope, offset,
    minimum score) for each position along the last axis. Lower scores, and scores without a curve,
    become `default`.
    """

    transform: str = "identity"
    default: float = 0.0
    curves: tuple[tuple[float, ...], ...] = ()

    def apply(self, scores: np.ndarray) -> np.ndarray:
        """Return calibrated scores as floats; unchanged if the number of curves does not match."""
        real = np.asarray(scores, np.float64)
        if not real.ndim or real.shape[-1] != len(self.curves):
            return real
        rows = [curve or (np.nan, 0.0, 0.0, -np.inf) for curve in self.curves]
        scale, slope, offset, minimum = np.array(rows, np.float64).T
        with np.errstate(all="ignore"):
            if self.transform == "log":
                transformed = np.log(real)
            elif self.transform == "inverse logistic":
                transformed = np.log(real) - np.log1p(-real)
            else:
                transformed = real
            calibrated = scale / (1 + np.exp(-(slope * transformed + offset)))
        unusable = np.isnan(calibrated) | (real < minimum)
        return np.where(unusable, self.default, calibrated)


@dataclass(frozen=True)
class TensorMetadata:
    """Metadata of an input or output.

    `content` is 'image', 'audio', 'features', 'bounding boxes' or ''. `color` is the color space of
    an image: 'rgb', 'gray' or ''. `minimum` and `maximum` are the usual range of values, for all
    channels or per channel. Scores below `threshold` should be ignored.
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
        """Return the labels of a kind in a language ('en'), else the first ones; () if none."""
        of_kind = [labels for labels in self.labels if labels.kind == kind]
        in_locale = [labels for labels in of_kind if labels.locale == locale]
        return next((labels.texts for labels in (*in_locale, *of_kind)), ())


@dataclass(frozen=True)
class ModelMetadata:
    """Metadata of a model.

    `inputs` and `outputs` are in the session's order, or empty if nothing is known about any of
    them. `properties` are further key-value pairs. `problems` has a reason for each piece of
    metadata that could not be read. `input_ranges` is no metadata of the file: it has the range of
    pixels of picture inputs whose first operators show it.
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
    input_ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict, compare=False)

    def __bool__(self) -> bool:
        """Return True if the model has any metadata."""
        return self != ModelMetadata()

    def to_json(self) -> dict[str, Any]:
        """Return the metadata as plain data."""
        return asdict(self)


def tensor_at(tensors: Sequence[TensorMetadata], index: int) -> TensorMetadata | None:
    """Return the metadata of the input or output at an index; None if there is none."""
    metadata = tensors[index] if index < len(tensors) else None
    return None if metadata == TensorMetadata() else metadata


Signatures = Mapping[str, Signature]


def encode_metadata(metadata: ModelMetadata, signatures: Signatures) -> bytes:
    """Serialize metadata and signatures; b'' if both are empty."""
    if not metadata and not signatures and not metadata.input_ranges:
        return b""
    record = {"metadata": metadata, "signatures": dict(signatures)}
    text = json.dumps(record, separators=(",", ":"), ensure_ascii=False, default=vars)
    return text.encode()


def decode_metadata(content: bytes) -> tuple[ModelMetadata, Signatures]:
    """Deserialize the output of `encode_metadata`."""
    if not content:
        return ModelMetadata(), {}
    try:
        record = json.loads(content)
        signatures = {str(name): Signature(**one) for name, one in record["signatures"].items()}
        return _metadata(record["metadata"]), signatures
    except MALFORMED as error:
        return ModelMetadata(problems=(f"the stored metadata is damaged: {error!r}",)), {}


def _metadata(record: Mapping[str, Any]) -> ModelMetadata:
    inputs, outputs = (tuple(map(_tensor, record[name])) for name in ("inputs", "outputs"))
    own = {"inputs": inputs, "outputs": outputs, "files": _files(record)}
    ranges = {name: (low, high) for name, (low, high) in record.get("input_ranges", {}).items()}
    known = {**own, "problems": tuple(record["problems"]), "input_ranges": ranges}
    return ModelMetadata(**{**record, **known})


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

"""What came out of a model, for people: real numbers, the best classes by their labels, text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fourfold.types import dequantize

if TYPE_CHECKING:
    from fourfold import TensorInfo
    from fourfold.metadata import TensorMetadata

TOP = 5  # classes that are shown
LEAST_CLASSES = 10  # of an output that counts as scores though nothing says so


def summarise(
    arrays: Mapping[str, np.ndarray], infos: Iterable[TensorInfo] = (), top: int = TOP
) -> list[dict[str, Any]]:
    """What the outputs look like, as plain data, by what the model says of them."""
    known = {info.name: info for info in infos}
    real = {name: _real(array, known.get(name)) for name, array in arrays.items()}
    scores = {name: _scores_beside(name, real, known) for name in arrays}
    rows = []
    for name, array in arrays.items():
        row: dict[str, Any] = {"name": name, "shape": list(array.shape), "dtype": str(array.dtype)}
        row |= _extremes(real[name])
        found = _metadata(known.get(name))
        if array.dtype == object:
            row |= {"dtype": "text", "values": [_text(one) for one in array.ravel()[:top]]}
        elif found is not None and found.label_texts(kind="value"):
            beside = scores[name]
            numbers = None if beside is None else (real[beside].ravel(), _least(known[beside]))
            row["labels"] = _detections(array, found.label_texts(kind="value"), numbers, top)
        elif real[name].size and name not in scores.values():
            row |= _classes(real[name], found, top)
        rows.append(row)
    return rows


def _metadata(info: TensorInfo | None) -> TensorMetadata | None:
    return getattr(info, "metadata", None)


def _real(array: np.ndarray, info: TensorInfo | None) -> np.ndarray:
    """The numbers that an output stands for, calibrated if the model says how."""
    if array.dtype.kind not in "fiub":
        return np.empty(0)
    steps = None if info is None else info.quantization
    numbers = dequantize(array, steps) if steps is not None else array
    found = _metadata(info)
    if found is not None and found.calibration is not None:
        return found.calibration.apply(numbers)
    return numbers.astype(np.float64)


def _extremes(numbers: np.ndarray) -> dict[str, float | None]:
    names = ("min", "max", "mean")
    return {name: float(getattr(numbers, name)()) if numbers.size else None for name in names}


def _classes(numbers: np.ndarray, found: TensorMetadata | None, top: int) -> dict[str, Any]:
    """The best of an output's classes, or of many places those that most of them have."""
    labels = () if found is None else found.label_texts()
    classes = numbers.shape[-1] if numbers.ndim else 0
    labelled = bool(labels) and len(labels) == classes
    single = numbers.size == classes and numbers.ndim <= 2
    if single and (labelled or classes >= LEAST_CLASSES):
        least = None if found is None else found.threshold
        return {"top": _best(numbers.ravel(), labels if labelled else (), top, least)}
    if labelled and not single:
        return {"shares": _shares(numbers, labels, top)}
    return {}


def _best(
    scores: np.ndarray, labels: tuple[str, ...], top: int, least: float | None
) -> list[dict[str, Any]]:
    rows = []
    for place in np.argsort(-scores, kind="stable")[:top]:
        if least is None or scores[place] >= least:
            label = {"label": labels[place]} if labels else {}
            rows.append({"class": int(place), **label, "score": float(scores[place])})
    return rows


def _shares(numbers: np.ndarray, labels: tuple[str, ...], top: int) -> list[dict[str, Any]]:
    """Which classes are the best of most places, such as the pixels of a mask."""
    counts = np.bincount(numbers.argmax(-1).ravel(), minlength=len(labels))
    order = [place for place in np.argsort(-counts, kind="stable")[:top] if counts[place]]
    whole = counts.sum()
    return [
        {"class": int(one), "label": labels[one], "share": float(counts[one] / whole)}
        for one in order
    ]


def _scores_beside(
    name: str, real: Mapping[str, np.ndarray], infos: Mapping[str, TensorInfo]
) -> str | None:
    """The output with the scores of what an output of labelled numbers found: it has the same
    shape, and says that it is scores.
    """
    own = _metadata(infos.get(name))
    if own is None or not own.label_texts(kind="value"):
        return None
    for other, numbers in real.items():
        found = _metadata(infos.get(other))
        same = other != name and numbers.shape == real[name].shape
        if same and found is not None and "score" in found.name.lower():
            return other
    return None


def _least(info: TensorInfo) -> float | None:
    found = _metadata(info)
    return None if found is None else found.threshold


def _detections(
    classes: np.ndarray,
    labels: tuple[str, ...],
    scores: tuple[np.ndarray, float | None] | None,
    top: int,
) -> list[dict[str, Any]]:
    """What each number of an output means, with its score where there is one."""
    rows = []
    for place, number in enumerate(classes.ravel()[:top].tolist()):
        known = float(number).is_integer() and 0 <= number < len(labels)
        row: dict[str, Any] = {"class": number, "label": labels[int(number)] if known else ""}
        if scores is not None:
            row["score"] = float(scores[0][place])
            if scores[1] is not None and row["score"] < scores[1]:
                continue
        rows.append(row)
    return rows


def _text(value: object) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)

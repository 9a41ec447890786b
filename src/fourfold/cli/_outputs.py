"""What came out of a model as it is: shapes, types, and between which numbers, or text."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from fourfold import TensorInfo

LEAST_ROW = 10  # numbers of an output, for the largest ones to be told


def summarise(
    arrays: Mapping[str, np.ndarray],
    infos: Iterable[TensorInfo] = (),
    unknown: Collection[str] = (),
    top: int = 5,
) -> list[dict[str, Any]]:
    """What the outputs look like, as plain data, in real numbers. Of the `unknown` ones that are a
    row, the largest numbers are told.
    """
    known = {info.name: info for info in infos}
    rows = []
    for name, array in arrays.items():
        row: dict[str, Any] = {"name": name, "shape": list(array.shape), "dtype": str(array.dtype)}
        real = _real(array, known.get(name))
        row |= _extremes(real)
        if array.dtype == object:
            row |= {"dtype": "text", "values": [_text(one) for one in array.ravel()[:top]]}
        elif name in unknown and real.size >= LEAST_ROW and real.size == max(real.shape):
            row["largest"] = _largest(real.ravel(), top)
        rows.append(row)
    return rows


def _real(array: np.ndarray, info: TensorInfo | None) -> np.ndarray:
    if array.dtype.kind not in "fiub":
        return np.empty(0)
    return (array if info is None else info.dequantize(array)).astype(np.float64)


def _extremes(numbers: np.ndarray) -> dict[str, float | None]:
    names = ("min", "max", "mean")
    return {name: float(getattr(numbers, name)()) if numbers.size else None for name in names}


def _largest(numbers: np.ndarray, top: int) -> list[dict[str, Any]]:
    order = np.argsort(-numbers, kind="stable")[:top]
    return [{"place": int(place), "number": float(numbers[place])} for place in order]


def _text(value: object) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)

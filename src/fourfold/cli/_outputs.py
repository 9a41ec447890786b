"""Summaries of outputs: shape, type, range and largest values, or texts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from fourfold import TensorInfo

MIN_ROW_SIZE = 10  # shorter outputs have no list of their largest numbers


def summarise(
    arrays: Mapping[str, np.ndarray],
    infos: Iterable[TensorInfo] = (),
    unknown: Collection[str] = (),
    top: int = 5,
) -> list[dict[str, Any]]:
    """Return summaries of outputs as plain data, in dequantized numbers. Outputs whose meaning is
    `unknown` and that are one row have a list of their largest numbers.
    """
    info_by_name = {info.name: info for info in infos}
    rows = []
    for name, array in arrays.items():
        row: dict[str, Any] = {"name": name, "shape": list(array.shape), "dtype": str(array.dtype)}
        real = _real(array, info_by_name.get(name))
        row |= _extremes(real)
        if array.dtype == object:
            row |= {"dtype": "text", "values": [_text(one) for one in array.ravel()[:top]]}
        elif name in unknown and real.size >= MIN_ROW_SIZE and real.size == max(real.shape):
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

"""Answers of other runtimes, stored so that tests mean something where these are not installed.

Of every output its shape is kept, and numbers spread over all of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent / "expected"
KEPT = 24  # numbers of each output


def numbers(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Numbers from -1 to 1 that are the same on every machine and repeat after long."""
    steps = np.arange(int(np.prod(shape)), dtype=np.int64) + 7919 * (seed + 1)
    mixed = (steps * steps * 31 + steps * 17) % 10007
    return (mixed / 5003.5 - 1).astype(np.float32).reshape(shape)


def _places(size: int) -> np.ndarray:
    return np.unique(np.linspace(0, size - 1, min(size, KEPT)).astype(np.int64))


def summary(array: np.ndarray) -> dict[str, Any]:
    flat = np.asarray(array).reshape(-1)
    kept = flat[_places(flat.size)].astype(np.float64)
    return {"shape": list(array.shape), "kept": [float(f"{number:.7g}") for number in kept]}


def write_answers(name: str, answers: Mapping[str, list[np.ndarray]]) -> None:
    """Store the answers of a runtime to many cases, each with its outputs."""
    rows = [
        f"{json.dumps(case)}: {json.dumps([summary(array) for array in arrays])}"
        for case, arrays in sorted(answers.items())
    ]
    (FOLDER / f"{name}.json").write_text("{\n" + ",\n".join(rows) + "\n}\n")


def stored(name: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = json.loads((FOLDER / f"{name}.json").read_text())
    return found


def check_answers(
    expected: list[dict[str, Any]], found: list[np.ndarray], tolerance: float = 1e-4
) -> None:
    """Each output has the shape that is stored, and numbers as near as a part of their range."""
    assert [list(array.shape) for array in found] == [item["shape"] for item in expected]
    for item, array in zip(expected, found, strict=True):
        flat = array.reshape(-1)
        kept = np.array(item["kept"])
        reach = max(float(np.ptp(kept)), float(np.abs(kept).max(initial=0)), 1e-6)
        assert np.abs(flat[_places(flat.size)] - kept).max(initial=0) <= tolerance * reach

"""Stored results of other runtimes, for tests where these are not installed.

For each output, its shape and evenly spread numbers are stored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent / "expected"
STORED_COUNT = 24  # numbers per output


def numbers(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Return numbers from -1 to 1 that are the same on every machine, with a long period."""
    steps = np.arange(int(np.prod(shape)), dtype=np.int64) + 7919 * (seed + 1)
    mixed = (steps * steps * 31 + steps * 17) % 10007
    return (mixed / 5003.5 - 1).astype(np.float32).reshape(shape)


def _places(size: int) -> np.ndarray:
    return np.unique(np.linspace(0, size - 1, min(size, STORED_COUNT)).astype(np.int64))


def summary(array: np.ndarray) -> dict[str, Any]:
    flat = np.asarray(array).reshape(-1)
    kept = flat[_places(flat.size)].astype(np.float64)
    return {"shape": list(array.shape), "kept": [float(f"{number:.7g}") for number in kept]}


def write_answers(name: str, answers: Mapping[str, list[np.ndarray]]) -> None:
    """Store a runtime's outputs for many cases."""
    rows = [
        f"{json.dumps(case)}: {json.dumps([summary(array) for array in arrays])}"
        for case, arrays in sorted(answers.items())
    ]
    (FOLDER / f"{name}.json").write_text("{\n" + ",\n".join(rows) + "\n}\n")


def stored(name: str) -> dict[str, list[dict[str, Any]]]:
    result: dict[str, list[dict[str, Any]]] = json.loads((FOLDER / f"{name}.json").read_text())
    return result


def check_answers(
    expected: list[dict[str, Any]], found: list[np.ndarray], tolerance: float = 1e-4
) -> None:
    """Check the stored shape of each output, and its numbers relative to their range."""
    assert [list(array.shape) for array in found] == [item["shape"] for item in expected]
    for item, array in zip(expected, found, strict=True):
        flat = array.reshape(-1)
        kept = np.array(item["kept"])
        reach = max(float(np.ptp(kept)), float(np.abs(kept).max(initial=0)), 1e-6)
        assert np.abs(flat[_places(flat.size)] - kept).max(initial=0) <= tolerance * reach

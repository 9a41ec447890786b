"""Random arrays for inputs, reproducible by a seed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np


class InputPort(Protocol):
    """Name, shape, dtype and limits of an input."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> Any: ...
    @property
    def limits(self) -> tuple[int, int] | None: ...


def random_inputs(ports: Iterable[InputPort], seed: int) -> dict[str, np.ndarray]:
    """Return random arrays by name, reproducible by the seed and different for each input."""
    pairs = enumerate(ports)
    return {port.name: _random(port, np.random.default_rng([seed, index])) for index, port in pairs}


def _random(port: InputPort, generator: np.random.Generator) -> np.ndarray:
    dtype, shape = np.dtype(port.dtype), tuple(port.shape)
    if dtype.kind == "O":  # text: words of five letters
        letters = generator.integers(ord("a"), ord("z"), (*shape, 5), np.uint8, endpoint=True)
        return np.asarray(letters.view("S5")[..., 0])
    if (
        dtype.kind in "iu"
    ):  # bytes are pixels; wider integers are often indices, which must be small
        limits = np.iinfo(dtype)
        low, high = (limits.min, limits.max) if dtype.itemsize == 1 else (0, 1)
        if port.limits is not None:
            low, high = max(low, port.limits[0]), min(high, port.limits[1])
        return generator.integers(low, high, shape, dtype, endpoint=True)
    if dtype.kind == "b":
        return generator.integers(0, 2, shape).astype(dtype)
    return np.asarray(generator.uniform(-1, 1, shape)).astype(dtype)

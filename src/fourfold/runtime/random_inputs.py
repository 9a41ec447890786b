"""Random numbers for inputs, the same for the same seed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np


class InputPort(Protocol):
    """What is needed to know of one input of a session."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> Any: ...


def random_inputs(ports: Iterable[InputPort], seed: int) -> dict[str, np.ndarray]:
    """The same numbers for the same seed, each input its own."""
    pairs = enumerate(ports)
    return {port.name: _random(port, np.random.default_rng([seed, place])) for place, port in pairs}


def _random(port: InputPort, generator: np.random.Generator) -> np.ndarray:
    dtype, shape = np.dtype(port.dtype), tuple(port.shape)
    if dtype.kind == "O":  # words of five letters
        letters = generator.integers(ord("a"), ord("z"), (*shape, 5), np.uint8, endpoint=True)
        return np.asarray(letters.view("S5")[..., 0])
    if dtype.kind in "iu":  # bytes are pixels; wider numbers are places, which must stay small
        limits = np.iinfo(dtype)
        low, high = (limits.min, limits.max) if dtype.itemsize == 1 else (0, 1)
        return generator.integers(low, high, shape, dtype, endpoint=True)
    if dtype.kind == "b":
        return generator.integers(0, 2, shape).astype(dtype)
    return np.asarray(generator.uniform(-1, 1, shape)).astype(dtype)

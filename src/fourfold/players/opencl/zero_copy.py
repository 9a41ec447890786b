"""Inputs that kernels on a CPU read where the caller has them, without a copy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

ALIGNED = 16  # bytes that the address of an array is a multiple of, for kernels to read it there
Lead = Callable[[int], None]


class ZeroCopyInputs:
    """Where each buffer is at the moment, and whom to tell when that changes."""

    def __init__(self) -> None:
        self._told: dict[int, list[Lead]] = {}
        self._own: dict[int, int] = {}
        self._places: dict[int, int] = {}

    def add(self, buffer: int, own: int, tell: Lead) -> None:
        """Tell a kernel where a buffer is, from now on whenever it is not in its `own` memory."""
        self._told.setdefault(buffer, []).append(tell)
        self._own[buffer] = self._places[buffer] = own
        tell(own)

    def read_there(self, buffer: int, array: np.ndarray) -> bool:
        """Let kernels read an array where it lies, or else where a copy of it goes."""
        if buffer not in self._told:
            return False
        place = array.__array_interface__["data"][0]
        fits = place % ALIGNED == 0 and array.flags.c_contiguous
        self._tell(buffer, place if fits else self._own[buffer])
        return fits

    def forget(self) -> None:
        """Let kernels read memory of their own: arrays of a run may be gone after it."""
        for buffer, own in self._own.items():
            self._tell(buffer, own)

    def _tell(self, buffer: int, place: int) -> None:
        if place != self._places[buffer]:
            self._places[buffer] = place
            for tell in self._told[buffer]:
                tell(place)

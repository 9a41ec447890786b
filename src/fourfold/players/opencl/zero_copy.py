"""Inputs that kernels on a CPU read where the caller has them, without a copy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

ALIGNED = 16  # bytes that the address of an array is a multiple of, for kernels to read it there
SetAddress = Callable[[int], None]  # sets an argument of a kernel


class ZeroCopyInputs:
    """Where each buffer is at the moment, and which kernel arguments change when that does."""

    def __init__(self) -> None:
        self._setters: dict[int, list[SetAddress]] = {}
        self._own: dict[int, int] = {}  # the address of each buffer's own memory
        self._current: dict[int, int] = {}

    def bind(self, buffer: int, own: int, set_address: SetAddress) -> None:
        """Let an argument of a kernel follow a buffer, which begins in its `own` memory."""
        self._setters.setdefault(buffer, []).append(set_address)
        self._own[buffer] = self._current[buffer] = own
        set_address(own)

    def read_in_place(self, buffer: int, array: np.ndarray) -> bool:
        """Let kernels read an array where it lies, or else where a copy of it goes."""
        if buffer not in self._setters:
            return False
        address = array.__array_interface__["data"][0]
        fits = address % ALIGNED == 0 and array.flags.c_contiguous
        self._move(buffer, address if fits else self._own[buffer])
        return fits

    def release_arrays(self) -> None:
        """Let kernels read memory of their own: arrays of a run may be gone after it."""
        for buffer, own in self._own.items():
            self._move(buffer, own)

    def _move(self, buffer: int, address: int) -> None:
        if address != self._current[buffer]:
            self._current[buffer] = address
            for set_address in self._setters[buffer]:
                set_address(address)

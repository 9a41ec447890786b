"""Inputs that kernels on a CPU read where the caller has them, without a copy."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fourfold.players.opencl.arguments import Place, PortArguments

ALIGNED = 16  # bytes that the address of an array is a multiple of, for kernels to read it there


class ZeroCopyInputs:
    """Inputs that may be at another address in each run, and where their own memory is."""

    def __init__(self, arguments: PortArguments, own: Mapping[int, Place]) -> None:
        self._arguments, self._own = arguments, own

    def read_in_place(self, buffer: int, array: np.ndarray) -> bool:
        """Let kernels read an array where it lies, or else where a copy of it goes."""
        own = self._own.get(buffer)
        if own is None:
            return False
        address = array.__array_interface__["data"][0]
        fits = address % ALIGNED == 0 and array.flags.c_contiguous
        self._arguments.move(buffer, Place(None, address) if fits else own)
        return bool(fits)

    def release_arrays(self) -> None:
        """Let kernels read memory of their own: arrays of a run may be gone after it."""
        for buffer, own in self._own.items():
            self._arguments.move(buffer, own)

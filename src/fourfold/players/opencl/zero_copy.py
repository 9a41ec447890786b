"""Inputs that kernels on a CPU read from the caller's arrays without a copy."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fourfold.players.opencl.arguments import BufferLocation, PortArguments

ALIGNED = 16  # bytes; required alignment of an array that kernels read directly


class ZeroCopyInputs:
    """Inputs whose address may change in each run, and the locations of their own memory."""

    def __init__(self, arguments: PortArguments, own: Mapping[int, BufferLocation]) -> None:
        self._arguments, self._own = arguments, own

    def read_in_place(self, buffer: int, array: np.ndarray) -> bool:
        """Let kernels read an array directly if possible, else from its own memory."""
        own = self._own.get(buffer)
        if own is None:
            return False
        address = array.__array_interface__["data"][0]
        fits = address % ALIGNED == 0 and array.flags.c_contiguous
        self._arguments.move(buffer, BufferLocation(None, address) if fits else own)
        return bool(fits)

    def release_arrays(self) -> None:
        """Let kernels read their own memory: arrays of a run may be freed after it."""
        for buffer, own in self._own.items():
            self._arguments.move(buffer, own)

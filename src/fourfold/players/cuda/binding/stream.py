"""Streams of commands, and the events that tell when one of them was reached."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_size_t, c_uint, c_ulonglong, c_void_p

import numpy as np

from fourfold.players.cuda.binding.calls import call, give_back

_NON_BLOCKING = 1  # it does not wait for the stream that all others wait for


class Stream:
    """Commands that run one after the other."""

    def __init__(self) -> None:
        pointer = c_void_p()
        call("cuStreamCreate", byref(pointer), c_uint(_NON_BLOCKING))
        self.pointer: c_void_p | None = pointer

    def write(self, address: int, array: np.ndarray) -> None:
        """Copy an array, which lies in one piece, to the device."""
        size = c_size_t(array.nbytes)
        call("cuMemcpyHtoDAsync_v2", c_ulonglong(address), _start(array), size, self.pointer)

    def read(self, address: int, array: np.ndarray) -> None:
        """Copy from the device into an array."""
        size = c_size_t(array.nbytes)
        call("cuMemcpyDtoHAsync_v2", _start(array), c_ulonglong(address), size, self.pointer)

    def fill(self, address: int, word: int, count: int) -> None:
        """Fill so many words of 32 bits."""
        place = (c_ulonglong(address), c_uint(word), c_size_t(count))
        call("cuMemsetD32Async", *place, self.pointer)

    def finish(self) -> None:
        """Wait for all that was put in."""
        call("cuStreamSynchronize", self.pointer)

    def release(self) -> None:
        pointer, self.pointer = self.pointer, None
        if pointer is not None:
            give_back("cuStreamDestroy_v2", pointer)


class Event:
    """A place in a stream, and when it was reached."""

    def __init__(self) -> None:
        pointer = c_void_p()
        call("cuEventCreate", byref(pointer), c_uint(0))
        self.pointer = pointer

    def record(self, stream: Stream) -> None:
        call("cuEventRecord", self.pointer, stream.pointer)

    def seconds_from(self, first: Event) -> float:
        """How much later this one was reached; both must have been."""
        milliseconds = ctypes.c_float()
        call("cuEventElapsedTime", byref(milliseconds), first.pointer, self.pointer)
        return milliseconds.value * 1e-3

    def release(self) -> None:
        give_back("cuEventDestroy_v2", self.pointer)


def _start(array: np.ndarray) -> c_void_p:
    return c_void_p(array.ctypes.data)

"""Streams of commands, and events that mark positions in them."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_size_t, c_uint, c_ulonglong, c_void_p

import numpy as np

from fourfold.players.cuda.binding.calls import call, give_back, is_ready, quick_call

_NON_BLOCKING = 1  # does not synchronize with the legacy default stream
_BLOCKING_WAIT, _NO_TIMING = 1, 2  # flags of an event
DEFAULT_STREAMS = (0, 1, 2)  # handles of default streams, of all threads or of one
DEFAULT_STREAM = 1  # used by libraries that were given no other


class Stream:
    """Commands that run one after the other."""

    def __init__(self) -> None:
        pointer = c_void_p()
        call("cuStreamCreate", byref(pointer), c_uint(_NON_BLOCKING))
        self.pointer: c_void_p | None = pointer
        self._borrowed = False

    @staticmethod
    def of(handle: int) -> Stream:
        """Wrap a stream of another library, which this object does not destroy."""
        borrowed = Stream.__new__(Stream)
        borrowed.pointer, borrowed._borrowed = c_void_p(handle), True
        return borrowed

    def write(self, address: int, array: np.ndarray) -> None:
        """Copy a contiguous array to the device."""
        size = c_size_t(array.nbytes)
        call("cuMemcpyHtoDAsync_v2", c_ulonglong(address), _start(array), size, self.pointer)

    def read(self, address: int, array: np.ndarray) -> None:
        """Copy from the device into an array."""
        size = c_size_t(array.nbytes)
        call("cuMemcpyDtoHAsync_v2", _start(array), c_ulonglong(address), size, self.pointer)

    def copy(self, target: int, source: int, size: int) -> None:
        """Copy between device memory and pinned memory."""
        arguments = (c_ulonglong(target), c_ulonglong(source), c_size_t(size))
        quick_call("cuMemcpyAsync", *arguments, self.pointer)

    def fill(self, address: int, word: int, count: int) -> None:
        """Fill memory with 32-bit words."""
        arguments = (c_ulonglong(address), c_uint(word), c_size_t(count))
        call("cuMemsetD32Async", *arguments, self.pointer)

    def wait_for(self, event: Event) -> None:
        """Make subsequent work wait for an event."""
        quick_call("cuStreamWaitEvent", self.pointer, event.pointer, c_uint(0))

    def follow(self, other: Stream) -> None:
        """Make subsequent work wait for all work submitted to another stream so far."""
        event = Event()
        try:
            event.record(other)
            self.wait_for(event)
        finally:
            event.release()  # the driver frees it once it is reached

    def follow_default(self) -> None:
        """Make subsequent work wait for the default stream, unless that is idle."""
        default = Stream.of(DEFAULT_STREAM)
        if not default.is_idle:
            self.follow(default)

    @property
    def is_idle(self) -> bool:
        """Return True if all submitted work is done."""
        return is_ready("cuStreamQuery", self.pointer)

    def finish(self) -> None:
        """Wait for all submitted work."""
        call("cuStreamSynchronize", self.pointer)

    def release(self) -> None:
        pointer, self.pointer = self.pointer, None
        if pointer is not None and not self._borrowed:
            give_back("cuStreamDestroy_v2", pointer)


class Event:
    """A position in a stream, and the time when it was reached if `timed`."""

    def __init__(self, timed: bool = False) -> None:
        pointer = c_void_p()
        flags = 0 if timed else _BLOCKING_WAIT | _NO_TIMING
        call("cuEventCreate", byref(pointer), c_uint(flags))
        self.pointer: c_void_p | None = pointer

    def record(self, stream: Stream) -> None:
        quick_call("cuEventRecord", self.pointer, stream.pointer)

    @property
    def done(self) -> bool:
        """Return True if it was reached, without waiting."""
        return is_ready("cuEventQuery", self.pointer)

    def wait(self) -> None:
        call("cuEventSynchronize", self.pointer)

    def seconds_from(self, first: Event) -> float:
        """Return the seconds between another event and this one; both must have been reached."""
        milliseconds = ctypes.c_float()
        call("cuEventElapsedTime", byref(milliseconds), first.pointer, self.pointer)
        return milliseconds.value * 1e-3

    def release(self) -> None:
        pointer, self.pointer = self.pointer, None
        if pointer is not None:
            give_back("cuEventDestroy_v2", pointer)


def _start(array: np.ndarray) -> c_void_p:
    return c_void_p(array.ctypes.data)

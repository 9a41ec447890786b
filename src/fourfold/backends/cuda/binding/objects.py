"""Streams, memory, modules, launches and graphs of a CUDA device; `release` frees each of them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import byref, c_int, c_size_t, c_uint, c_ulonglong, c_void_p
from typing import Any

import numpy as np

from fourfold.backends.cuda.binding import calls
from fourfold.backends.cuda.binding.calls import (
    Error,
    call,
    give_back,
    is_ready,
    quick_call,
    quick_function,
)

_NON_BLOCKING = 1  # does not synchronize with the legacy default stream
_BLOCKING_WAIT, _NO_TIMING = 1, 2  # flags of an event
DEFAULT_STREAMS = (0, 1, 2)  # handles of default streams, of all threads or of one
DEFAULT_STREAM = 1  # used by libraries that were given no other
_PORTABLE, _MAPPED = 1, 2
_MAX_DYNAMIC_LOCAL_MEMORY = 8  # attribute: dynamic local memory that launches may request
_RELAXED = 2  # other threads may make calls during capture
Value = ctypes.c_ulonglong | ctypes.c_longlong | ctypes.c_int  # an argument of a kernel


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
        quick_call(
            "cuMemcpyAsync", c_ulonglong(target), c_ulonglong(source), c_size_t(size), self.pointer
        )

    def fill(self, address: int, word: int, count: int) -> None:
        """Fill memory with 32-bit words."""
        call("cuMemsetD32Async", c_ulonglong(address), c_uint(word), c_size_t(count), self.pointer)

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


class DeviceBuffer:
    """Device memory, by its address."""

    def __init__(self, size: int) -> None:
        address = c_ulonglong()
        call("cuMemAlloc_v2", byref(address), c_size_t(size))
        self.address, self.size = address.value, size

    def release(self) -> None:
        address, self.address = self.address, 0
        if address:
            give_back("cuMemFree_v2", c_ulonglong(address))


class HostBuffer:
    """Pinned host memory, which kernels access by the same address."""

    def __init__(self, size: int) -> None:
        pointer = c_void_p()
        call("cuMemHostAlloc", byref(pointer), c_size_t(size), c_uint(_PORTABLE | _MAPPED))
        self.address, self.size = pointer.value or 0, size
        ctypes.memset(self.address, 0, size)

    def release(self) -> None:
        address, self.address = self.address, 0
        if address:
            give_back("cuMemFreeHost", c_void_p(address))


class Module:
    """The kernels of an image: machine code, or PTX, which the driver translates."""

    def __init__(self, code: bytes) -> None:
        pointer = c_void_p()
        call("cuModuleLoadData", byref(pointer), ctypes.c_char_p(code))
        self.pointer: c_void_p | None = pointer

    def function(self, name: str, local_bytes: int = 0) -> Function:
        return Function(self, name, local_bytes)

    def release(self) -> None:
        pointer, self.pointer = self.pointer, None
        if pointer is not None:
            give_back("cuModuleUnload", pointer)


class Function:
    """A kernel of a module; its launches request `local_bytes` of local memory in addition to what
    it declares.
    """

    def __init__(self, module: Module, name: str, local_bytes: int = 0) -> None:
        pointer = c_void_p()
        call("cuModuleGetFunction", byref(pointer), module.pointer, name.encode())
        self.pointer, self.name, self.local_bytes = pointer, name, local_bytes
        if local_bytes:
            call("cuFuncSetAttribute", pointer, _MAX_DYNAMIC_LOCAL_MEMORY, local_bytes)

    def groups_at_once(self, items: int) -> int:
        """Return how many groups of this many work-items a unit holds at once."""
        count = c_int()
        name = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
        call(name, byref(count), self.pointer, items, c_size_t(self.local_bytes))
        return count.value


class Launch:
    """A kernel with all of its arguments, ready to launch. The driver guarantees that all groups of
    a `cooperative` launch are on the GPU at once.
    """

    def __init__(
        self,
        function: Function,
        groups: Sequence[int],
        items: Sequence[int],
        values: Sequence[Value],
        cooperative: bool = False,
    ) -> None:
        self._values = values  # the driver reads them at each launch
        pointers = (c_void_p * len(values))(*map(ctypes.addressof, values))
        sizes = (*map(c_uint, groups), *map(c_uint, items), c_uint(function.local_bytes))
        self._name = "cuLaunchCooperativeKernel" if cooperative else "cuLaunchKernel"
        self._before = (function.pointer, *sizes)
        self._after: tuple[Any, ...] = (pointers,) if cooperative else (pointers, None)
        self._call = quick_function(self._name)

    def put(self, stream: Stream) -> None:
        status = self._call(*self._before, stream.pointer, *self._after)
        if status:
            raise Error(self._name, status)


class Graph:
    """Captured commands that are submitted to any stream with one call."""

    def __init__(self, put: Callable[[Stream], None]) -> None:
        captured, pointer = _captured(put), c_void_p()
        try:
            name = "cuGraphInstantiateWithFlags"
            call(name, byref(pointer), captured, c_ulonglong(0))
        finally:
            give_back("cuGraphDestroy", captured)
        self._pointer: c_void_p | None = pointer
        self._call: Any = quick_function("cuGraphLaunch")

    def launch(self, stream: Stream) -> None:
        status = self._call(self._pointer, stream.pointer)
        if status:
            raise Error("cuGraphLaunch", status)

    def release(self) -> None:
        pointer, self._pointer = self._pointer, None
        if pointer is not None:
            give_back("cuGraphExecDestroy", pointer)


def _captured(put: Callable[[Stream], None]) -> c_void_p:
    """Capture the commands that a function submits to a stream.

    A new stream is used, since the default stream cannot be captured, and a caller's may be
    capturing already.
    """
    stream, captured = Stream(), c_void_p()
    try:
        call("cuStreamBeginCapture_v2", stream.pointer, _RELAXED)
        try:
            put(stream)
        except BaseException:
            calls.library().cuStreamEndCapture(stream.pointer, byref(captured))
            if captured.value:
                give_back("cuGraphDestroy", captured)
            raise
        call("cuStreamEndCapture", stream.pointer, byref(captured))
    finally:
        stream.release()
    return captured

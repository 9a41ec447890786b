"""Memory, modules, launches and graphs of a CUDA device: each gives itself back by `release`."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import byref, c_int, c_size_t, c_uint, c_ulonglong, c_void_p
from typing import Any

import numpy as np

from fourfold.players.cuda.binding import loader
from fourfold.players.cuda.binding.calls import Error, call, give_back
from fourfold.players.cuda.binding.stream import Stream

_PORTABLE, _MAPPED = 1, 2
_RELAXED = 2  # other threads may go on while launches are captured
Value = ctypes.c_ulonglong | ctypes.c_longlong | ctypes.c_int  # an argument of a kernel


class DeviceBuffer:
    """Memory of the device, by its address."""

    def __init__(self, size: int) -> None:
        address = c_ulonglong()
        call("cuMemAlloc_v2", byref(address), c_size_t(size))
        self.address, self.size = address.value, size

    def release(self) -> None:
        address, self.address = self.address, 0
        if address:
            give_back("cuMemFree_v2", c_ulonglong(address))


class HostBuffer:
    """Pinned memory of the host, which kernels reach by the same address."""

    def __init__(self, size: int) -> None:
        pointer = c_void_p()
        call("cuMemHostAlloc", byref(pointer), c_size_t(size), c_uint(_PORTABLE | _MAPPED))
        self.address, self.size = pointer.value or 0, size
        memory: Any = (ctypes.c_ubyte * size).from_address(self.address)
        self.bytes: np.ndarray = np.frombuffer(memory, np.uint8)
        self.bytes[:] = 0

    def release(self) -> None:
        address, self.address = self.address, 0
        if address:
            give_back("cuMemFreeHost", c_void_p(address))


class Module:
    """The kernels of an image: code of an architecture, or PTX, which the driver translates."""

    def __init__(self, code: bytes) -> None:
        pointer = c_void_p()
        call("cuModuleLoadData", byref(pointer), ctypes.c_char_p(code))
        self.pointer: c_void_p | None = pointer

    def function(self, name: str) -> Function:
        return Function(self, name)

    def release(self) -> None:
        pointer, self.pointer = self.pointer, None
        if pointer is not None:
            give_back("cuModuleUnload", pointer)


class Function:
    """One entry point of a module."""

    def __init__(self, module: Module, name: str) -> None:
        pointer = c_void_p()
        call("cuModuleGetFunction", byref(pointer), module.pointer, name.encode())
        self.pointer, self.name = pointer, name

    def groups_at_once(self, items: int) -> int:
        """How many groups of so many work-items a unit holds at the same time."""
        count = c_int()
        name = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
        call(name, byref(count), self.pointer, items, c_size_t(0))
        return count.value


class Launch:
    """A kernel with all of its arguments, ready to be put into a stream."""

    def __init__(
        self, function: Function, groups: Sequence[int], items: Sequence[int], values: list[Value]
    ) -> None:
        self._values = values  # the driver reads them whenever it is launched
        given = (c_void_p * len(values))(*map(ctypes.addressof, values))
        sizes = (*map(c_uint, groups), *map(c_uint, items), c_uint(0))
        self._before, self._after = (function.pointer, *sizes), (given, None)
        self._call = loader.quick_library().cuLaunchKernel

    def put(self, stream: Stream) -> None:
        status = self._call(*self._before, stream.pointer, *self._after)
        if status:
            raise Error("cuLaunchKernel", status)


class Graph:
    """What some function put into a stream, captured, to be put in again by one call."""

    def __init__(self, stream: Stream, put: Callable[[], None]) -> None:
        captured, pointer = c_void_p(), c_void_p()
        call("cuStreamBeginCapture_v2", stream.pointer, _RELAXED)
        try:
            put()
        finally:
            call("cuStreamEndCapture", stream.pointer, byref(captured))
        try:
            name = "cuGraphInstantiateWithFlags"
            call(name, byref(pointer), captured, c_ulonglong(0))
        finally:
            call("cuGraphDestroy", captured)
        self._pointer: c_void_p | None = pointer
        self._call: Any = loader.quick_library().cuGraphLaunch
        self._arguments = (pointer, stream.pointer)

    def launch(self) -> None:
        status = self._call(*self._arguments)
        if status:
            raise Error("cuGraphLaunch", status)

    def release(self) -> None:
        pointer, self._pointer = self._pointer, None
        if pointer is not None:
            give_back("cuGraphExecDestroy", pointer)

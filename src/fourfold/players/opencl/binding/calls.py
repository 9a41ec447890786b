"""Calls into OpenCL: a status that is not zero is an Error, whatever way it is given."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_void_p
from functools import cache
from typing import Any

from fourfold.forks import lost
from fourfold.players.opencl.binding.loader import library

API = "opencl"
FORKED = 1  # no status of OpenCL's: nothing was called, because it would never come back
_NO_MEMORY_OBJECT = -4
_OUT_OF_MEMORY = (_NO_MEMORY_OBJECT, -5, -6)
_NAMES = {
    FORKED: "the driver was at work before this process was forked",
    -1: "device not found",
    -2: "device not available",
    -4: "memory could not be allocated",
    -5: "out of resources",
    -6: "out of host memory",
    -11: "the program does not build",
    -14: "a command that was waited for failed",
    -18: "the device cannot be parted",
    -30: "invalid value",
    -34: "invalid context",
    -36: "invalid command queue",
    -38: "invalid memory object",
    -42: "invalid binary",
    -45: "invalid program executable",
    -46: "invalid kernel name",
    -48: "invalid kernel",
    -51: "invalid argument size",
    -52: "invalid kernel arguments",
    -54: "invalid work-group size",
    -61: "invalid buffer size",
    -1001: "no platform found",
    -9999: "the kernel reads or writes where it may not",
}


class Error(Exception):
    """What OpenCL answered: the function and its status."""

    def __init__(self, function: str, status: int) -> None:
        super().__init__(function, status)
        self.function, self.status = function, status

    @property
    def out_of_memory(self) -> bool:
        return self.status in _OUT_OF_MEMORY

    @property
    def no_memory_object(self) -> bool:
        """Whether there is no room for an object, which says nothing against those that are."""
        return self.status == _NO_MEMORY_OBJECT

    def __str__(self) -> str:
        return f"{self.function} failed: {_NAMES.get(self.status, 'error')} ({self.status})"


def check_process(name: str) -> None:
    """An Error where a function may not be called, because the parent of this process did."""
    if API in lost:
        raise Error(name, FORKED)


@cache
def _maker(name: str) -> Any:
    found = library()[name]
    found.restype = c_void_p
    return found


def call(name: str, *arguments: Any) -> None:
    """A function that gives a status."""
    check_process(name)
    status = getattr(library(), name)(*arguments)
    if status:
        raise Error(name, status)


def make(name: str, *arguments: Any) -> c_void_p:
    """A function that gives an object, and its status through its last argument."""
    check_process(name)
    status = c_int()
    found = _maker(name)(*arguments, byref(status))
    if status.value:
        raise Error(name, status.value)
    return c_void_p(found)


def info(name: str, *which: Any) -> bytes:
    """What one of the clGet...Info functions tells: first how much, then what."""
    size = ctypes.c_size_t()
    call(name, *which, ctypes.c_size_t(0), None, byref(size))
    data = ctypes.create_string_buffer(size.value)
    call(name, *which, size, data, None)
    return data.raw

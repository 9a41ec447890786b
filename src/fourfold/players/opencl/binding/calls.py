"""Calls into OpenCL: a status that is not zero is an Error, whatever way it is given."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int, c_void_p
from functools import cache
from typing import Any

from fourfold.players.opencl.binding.loader import library

_OUT_OF_MEMORY = (-4, -5, -6)
_NAMES = {
    -1: "device not found",
    -2: "device not available",
    -4: "memory could not be allocated",
    -5: "out of resources",
    -6: "out of host memory",
    -11: "the program does not build",
    -18: "the device cannot be parted",
    -30: "invalid value",
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

    def __str__(self) -> str:
        return f"{self.function} failed: {_NAMES.get(self.status, 'error')} ({self.status})"


@cache
def _maker(name: str) -> Any:
    found = library()[name]
    found.restype = c_void_p
    return found


def call(name: str, *arguments: Any) -> None:
    """A function that gives a status."""
    status = getattr(library(), name)(*arguments)
    if status:
        raise Error(name, status)


def make(name: str, *arguments: Any) -> c_void_p:
    """A function that gives an object, and its status through its last argument."""
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

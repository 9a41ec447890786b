"""Calls into OpenCL: a status that is not zero raises an Error.

The library that finds OpenCL drivers is the system's, or on Linux pyopencl's.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from ctypes import CDLL, PyDLL, byref, c_int, c_void_p
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, PathFinder
from typing import Any

from fourfold.config import limit_driver_threads, set_loader_folder
from fourfold.support.forks import lost

# Windows and macOS include it, or drivers install it. On Linux it may be missing.
_SYSTEM = {
    "win32": ("OpenCL.dll",),
    "darwin": ("/System/Library/Frameworks/OpenCL.framework/OpenCL",),
}
_ELSEWHERE = ("libOpenCL.so.1", "libOpenCL.so")


@cache
def library() -> CDLL:
    """Load the functions so that they release the GIL, for calls that wait or take long."""
    return CDLL(_path())


@cache
def quick_library() -> PyDLL:
    """Load the same functions without releasing the GIL: for calls of about a microsecond, waiting
    for the GIL again would take longer.
    """
    return PyDLL(_path())


@cache
def _path() -> str:
    """Return the first library that can be loaded; raises OSError if there is none."""
    limit_driver_threads()
    problems = []
    for path in _candidates():
        try:
            CDLL(path)
        except OSError as error:
            problems.append(str(error))
        else:
            return path
    raise OSError("; ".join(problems))


def _candidates() -> Iterator[str]:
    """Yield possible paths, in this order."""
    if sys.platform in _SYSTEM:
        yield from _SYSTEM[sys.platform]
        return
    folder = _pyopencl()
    for suffix in EXTENSION_SUFFIXES if folder is not None else ():
        path = os.path.join(str(folder), f"_cl{suffix}")
        if os.path.exists(path):
            set_loader_folder(str(folder))
            yield path  # it is linked with the loader, whose functions are found through it
    yield from _ELSEWHERE


def _pyopencl() -> str | None:
    """Return the folder of pyopencl, without importing it."""
    spec = PathFinder.find_spec("pyopencl")
    folders = None if spec is None else spec.submodule_search_locations
    return next(iter(folders), None) if folders else None


API = "opencl"
FORKED = 1  # our own status: the call was not made, because it would never return
_NO_MEMORY_OBJECT = -4
_OUT_OF_MEMORY = (_NO_MEMORY_OBJECT, -5, -6)
_NAMES = {
    FORKED: "the driver was used before this process was forked",
    -1: "device not found",
    -2: "device not available",
    -4: "memory could not be allocated",
    -5: "out of resources",
    -6: "out of host memory",
    -11: "the program does not build",
    -14: "a command that was waited for failed",
    -18: "the device cannot be partitioned",
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
    -9999: "a kernel accessed an illegal address",
}


class Error(Exception):
    """Failed call: the function and its status."""

    def __init__(self, function: str, status: int) -> None:
        super().__init__(function, status)
        self.function, self.status = function, status

    @property
    def out_of_memory(self) -> bool:
        return self.status in _OUT_OF_MEMORY

    @property
    def no_memory_object(self) -> bool:
        """Return True if an allocation failed; existing objects remain usable."""
        return self.status == _NO_MEMORY_OBJECT

    def __str__(self) -> str:
        return f"{self.function} failed: {_NAMES.get(self.status, 'error')} ({self.status})"


def check_process(name: str) -> None:
    """Raise an Error if the API must not be called because the parent of this process used it."""
    if API in lost:
        raise Error(name, FORKED)


@cache
def _maker(name: str) -> Any:
    function = library()[name]
    function.restype = c_void_p
    return function


def call(name: str, *arguments: Any) -> None:
    """Call a function that returns a status."""
    check_process(name)
    status = getattr(library(), name)(*arguments)
    if status:
        raise Error(name, status)


def make(name: str, *arguments: Any) -> c_void_p:
    """Call a function that returns an object, and its status through its last argument."""
    check_process(name)
    status = c_int()
    handle = _maker(name)(*arguments, byref(status))
    if status.value:
        raise Error(name, status.value)
    return c_void_p(handle)


def info(name: str, *which: Any) -> bytes:
    """Query the value of a clGet...Info function."""
    size = ctypes.c_size_t()
    call(name, *which, ctypes.c_size_t(0), None, byref(size))
    data = ctypes.create_string_buffer(size.value)
    call(name, *which, size, data, None)
    return data.raw

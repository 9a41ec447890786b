"""Calls into CUDA's driver: loads its library, and raises an Error for a status other than 0."""

from __future__ import annotations

from ctypes import CDLL, PyDLL
from functools import cache
from typing import Any

from fourfold.backends.cuda.driver import library_name
from fourfold.support.forks import lost


@cache
def library() -> CDLL:
    """Load the functions so that they release the GIL, for calls that wait or take long. Raises
    OSError if there is no driver.
    """
    return CDLL(library_name())


@cache
def quick_library() -> PyDLL:
    """Load the same functions without releasing the GIL, for calls of about a microsecond."""
    return PyDLL(library_name())


API = "cuda"
_OUT_OF_MEMORY, _NOT_STARTED = 2, 3
_NO_DEVICE, _NO_CONTEXT = 100, 201
_REFUSED = (200, 209, 218, 221, 222, 223)  # code that this GPU or this driver cannot run
# The context is unusable after these.
_LOST = (4, 46, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719)
_NOT_READY = 600
_NAMES = {
    1: "invalid value",
    2: "out of memory",
    3: "the driver is not initialized",
    4: "the driver is shutting down",
    34: "the library is a stub for linking",
    46: "the device is unavailable",
    100: "there is no CUDA device",
    101: "invalid device",
    200: "invalid image",
    201: "invalid context",
    209: "no code for this GPU",
    214: "uncorrectable memory error",
    218: "invalid PTX",
    220: "uncorrectable NVLink error",
    221: "the driver's PTX compiler is missing",
    222: "the PTX is newer than the driver",
    223: "PTX translation is disabled",
    226: "contained GPU error",
    301: "file not found",
    304: "an operating system call failed",
    400: "invalid handle",
    500: "not found",
    600: "not ready",
    700: "a kernel accessed an illegal address",
    701: "too many resources requested for a launch",
    702: "a launch took too long",
    709: "the context was destroyed",
    710: "a kernel assertion failed",
    717: "a kernel accessed an address of the wrong memory space",
    718: "a kernel jumped to an invalid address",
    719: "a launch failed",
    720: "a cooperative launch is too large",
    801: "not supported",
    802: "the system is not ready",
    803: "the driver and its library do not match",
    804: "this GPU does not support a library newer than its driver",
    999: "unknown error",
}


class Error(Exception):
    """Failed call: the function and its status."""

    def __init__(self, function: str, status: int) -> None:
        super().__init__(function, status)
        self.function, self.status = function, status

    @property
    def out_of_memory(self) -> bool:
        return self.status == _OUT_OF_MEMORY

    @property
    def no_device(self) -> bool:
        return self.status == _NO_DEVICE

    @property
    def no_context(self) -> bool:
        """Return True if this thread has no current context."""
        return self.status == _NO_CONTEXT

    @property
    def refused(self) -> bool:
        """Return True if code cannot run here, though it may elsewhere."""
        return self.status in _REFUSED

    @property
    def lost(self) -> bool:
        """Return True if the device is unusable in this process."""
        return self.status in _LOST

    def __str__(self) -> str:
        return f"{self.function} failed: {_NAMES.get(self.status, 'error')} ({self.status})"


def give_back(name: str, handle: Any) -> None:
    """Call a function that frees something; does nothing in a forked child, where all belongs to
    the parent.
    """
    if API not in lost:
        getattr(library(), name)(handle)


def call(name: str, *arguments: Any) -> None:
    """Call a function of the driver. In a forked child it fails as if the driver was
    not started.
    """
    status = _NOT_STARTED if API in lost else getattr(library(), name)(*arguments)
    if status:
        raise Error(name, status)


def quick_call(name: str, *arguments: Any) -> None:
    """Call a function that takes about a microsecond, without releasing the GIL."""
    status = _NOT_STARTED if API in lost else quick_function(name)(*arguments)
    if status:
        raise Error(name, status)


def quick_function(name: str) -> Any:
    """Return such a function, for frequent calls."""
    return getattr(quick_library(), name)


def call_found(name: str, function: Any, argument: Any) -> None:
    """Call a function that was looked up before."""
    status = _NOT_STARTED if API in lost else function(argument)
    if status:
        raise Error(name, status)


def is_ready(name: str, *arguments: Any) -> bool:
    """Call a function that asks whether something is done, and return its answer."""
    status = _NOT_STARTED if API in lost else getattr(library(), name)(*arguments)
    if status not in (0, _NOT_READY):
        raise Error(name, status)
    return not status

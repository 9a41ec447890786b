"""Calls into CUDA's driver: a status that is not zero is an Error."""

from __future__ import annotations

from typing import Any

from fourfold.forks import lost
from fourfold.players.cuda.binding import loader

API = "cuda"
_OUT_OF_MEMORY, _NOT_STARTED = 2, 3
_NO_DEVICE, _NO_CONTEXT = 100, 201
_REFUSED = (200, 209, 218, 221, 222, 223)  # an image that this GPU or this driver cannot run
# Nothing works in a context after these.
_LOST = (4, 46, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719)
_NOT_READY = 600
_NAMES = {
    1: "invalid value",
    2: "out of memory",
    3: "the driver is not initialised",
    4: "the driver is shutting down",
    34: "the library is a stub, which only linkers use",
    46: "the device is unavailable",
    100: "there is no CUDA device",
    101: "invalid device",
    200: "invalid image",
    201: "invalid context",
    209: "there is no code for this GPU",
    214: "memory could not be corrected",
    218: "invalid PTX",
    220: "an error of NVLink could not be corrected",
    221: "the driver's compiler of PTX is not there",
    222: "the PTX is newer than the driver",
    223: "translating PTX is switched off",
    226: "an error of the GPU was contained",
    301: "file not found",
    304: "a call of the operating system failed",
    400: "invalid handle",
    500: "not found",
    600: "not ready",
    700: "a kernel reads or writes where it may not",
    701: "too many resources requested for a launch",
    702: "a launch took too long",
    709: "the context is gone",
    710: "an assertion of a kernel failed",
    717: "a kernel reads or writes in memory of another kind",
    718: "a kernel jumps where it may not",
    719: "a launch failed",
    720: "a cooperative launch is too large",
    801: "not supported",
    802: "the system is not ready",
    803: "the driver and its library do not fit together",
    804: "this GPU does not bear a library that is newer than its driver",
    999: "unknown error",
}


class Error(Exception):
    """What the driver answered: the function and its status."""

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
        """Whether this thread has none that is current."""
        return self.status == _NO_CONTEXT

    @property
    def refused(self) -> bool:
        """Whether code cannot run here, though it may elsewhere."""
        return self.status in _REFUSED

    @property
    def lost(self) -> bool:
        """Whether nothing works on the device any more, in this process."""
        return self.status in _LOST

    def __str__(self) -> str:
        return f"{self.function} failed: {_NAMES.get(self.status, 'error')} ({self.status})"


def give_back(name: str, handle: Any) -> None:
    """A function that frees something. In a forked child all belongs to the parent."""
    if API not in lost:
        getattr(loader.library(), name)(handle)


def call(name: str, *arguments: Any) -> None:
    """A function of the driver. In a forked child it would answer that it was never started."""
    status = _NOT_STARTED if API in lost else getattr(loader.library(), name)(*arguments)
    if status:
        raise Error(name, status)


def quick_call(name: str, *arguments: Any) -> None:
    """The same for a function of a microsecond, for which no other thread is let in."""
    status = _NOT_STARTED if API in lost else quick_function(name)(*arguments)
    if status:
        raise Error(name, status)


def quick_function(name: str) -> Any:
    """Such a function, for those who call it often."""
    return getattr(loader.quick_library(), name)


def call_found(name: str, function: Any, argument: Any) -> None:
    """A function that was looked for before."""
    status = _NOT_STARTED if API in lost else function(argument)
    if status:
        raise Error(name, status)


def is_ready(name: str, *arguments: Any) -> bool:
    """What a function answers that asks whether something is done."""
    status = _NOT_STARTED if API in lost else getattr(loader.library(), name)(*arguments)
    if status not in (0, _NOT_READY):
        raise Error(name, status)
    return not status

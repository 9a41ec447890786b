"""Calls into CUDA's driver: a status that is not zero is an Error."""

from __future__ import annotations

from typing import Any

from fourfold.forks import lost
from fourfold.players.cuda.binding import loader

API = "cuda"
_OUT_OF_MEMORY, _NOT_STARTED = 2, 3
_NO_DEVICE = 100
_REFUSED = (200, 209, 218, 220, 221, 222, 223)  # an image that this GPU or this driver cannot run
_LOST = (4, 46, 214, 700, 702, 714, 715, 716, 717, 718, 719)  # nothing works after these
_NAMES = {
    1: "invalid value",
    2: "out of memory",
    3: "the driver is not initialised",
    4: "the driver is shutting down",
    46: "the device is unavailable",
    100: "there is no CUDA device",
    101: "invalid device",
    200: "invalid image",
    201: "invalid context",
    209: "there is no code for this GPU",
    214: "memory could not be corrected",
    218: "invalid PTX",
    222: "the PTX is newer than the driver",
    301: "file not found",
    400: "invalid handle",
    500: "not found",
    700: "a kernel reads or writes where it may not",
    701: "too many resources requested for a launch",
    702: "a launch took too long",
    719: "a launch failed",
    720: "a cooperative launch is too large",
    801: "not supported",
    803: "the driver and its library do not fit together",
    804: "this GPU needs a newer driver",
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

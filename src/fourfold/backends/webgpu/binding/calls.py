"""Errors of wgpu-native."""

from __future__ import annotations

from fourfold.backends.webgpu.binding import loader
from fourfold.support.forks import lost

API = "webgpu"
VALIDATION, OUT_OF_MEMORY, INTERNAL, UNKNOWN = 2, 3, 4, 5
LOST = 0  # our own value for a lost device
_NAMES = {LOST: "lost", VALIDATION: "refused", OUT_OF_MEMORY: "out of memory", INTERNAL: "internal"}


class Error(Exception):
    """A function that failed, the type of error, and the library's message."""

    def __init__(self, function: str, kind: int, message: str) -> None:
        super().__init__(function, kind, message)
        self.function, self.kind, self.message = function, kind, message

    @property
    def out_of_memory(self) -> bool:
        return self.kind == OUT_OF_MEMORY

    @property
    def lost(self) -> bool:
        """Return True if the device is unusable."""
        return self.kind == LOST

    def __str__(self) -> str:
        lines = [line.strip(" \t│├╭╰─┌└") for line in self.message.splitlines()]
        text = "; ".join(line for line in lines if line)
        return f"{self.function} failed ({_NAMES.get(self.kind, 'unknown')}): {text}"


def give_back(name: str, *handles: object) -> None:
    """Call a function that frees something; does nothing in a forked child, where all belongs to
    the parent.
    """
    if API not in lost:
        getattr(loader.library(), name)(*handles)

"""Connections shared by several users and closed after the last one.

A command holds all connections while it runs, so that its steps share them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Generic, Protocol, TypeVar

from fourfold.errors import DeviceError
from fourfold.support.forks import ForkSafeLock


class ConnectionLost(DeviceError):
    """The machine of a device cannot be reached (any more): the request has no answer, and no
    further request can be made.
    """


class Closable(Protocol):
    def close(self) -> None: ...


Opened = TypeVar("Opened", bound=Closable)


class Connections(Generic[Opened]):
    """Open objects by name, with reference counts."""

    def __init__(self) -> None:
        self._open: dict[str, Opened] = {}
        self._users: dict[str, int] = {}
        self._lock = ForkSafeLock(RLock)
        self._held = 0

    def acquire(self, name: str, make: Callable[[], Opened]) -> Opened:
        """Return the object of this name, opened if necessary; `release` gives it back."""
        with self._lock:
            if name not in self._open:
                self._open[name] = make()
            self._users[name] = self._users.get(name, 0) + 1
            return self._open[name]

    def release(self, name: str) -> None:
        with self._lock:
            self._users[name] -= 1
            self._close_unused()

    @contextmanager
    def using(self, name: str, make: Callable[[], Opened]) -> Iterator[Opened]:
        """Context manager that acquires and releases the object of this name."""
        opened = self.acquire(name, make)
        try:
            yield opened
        finally:
            self.release(name)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Context manager that keeps everything open until its end, then closes what is unused."""
        with self._lock:
            self._held += 1
        try:
            yield
        finally:
            with self._lock:
                self._held -= 1
                self._close_unused()

    def _close_unused(self) -> None:
        unused = [] if self._held else [name for name in self._open if not self._users.get(name)]
        for name in unused:
            self._users.pop(name, None)
            self._open.pop(name).close()


MACHINES: Connections = Connections()  # remote machines with devices

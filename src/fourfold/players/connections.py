"""What is open for several users at once, and closed after the last of them.

A command holds all connections while it runs, so that what one part of it opened serves the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Generic, Protocol, TypeVar

from fourfold.errors import DeviceError
from fourfold.forks import ForkSafeLock


class ConnectionLost(DeviceError):
    """The machine that a device is on cannot be reached, or no longer: nothing is known of what
    was asked, and nothing else of it can be asked either.
    """


class Closable(Protocol):
    """Something that is given back once."""

    def close(self) -> None: ...


Opened = TypeVar("Opened", bound=Closable)


class Connections(Generic[Opened]):
    """Open things by name, each with how many use it."""

    def __init__(self) -> None:
        self._open: dict[str, Opened] = {}
        self._users: dict[str, int] = {}
        self._lock = ForkSafeLock(RLock)
        self._held = 0

    def acquire(self, name: str, make: Callable[[], Opened]) -> Opened:
        """The one of this name, opened now if it is not; `release` gives it back."""
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
        """The one of this name for a while."""
        opened = self.acquire(name, make)
        try:
            yield opened
        finally:
            self.release(name)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nothing is closed until the end of this, and then all that nobody uses."""
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


MACHINES: Connections = Connections()  # other machines that devices are on

"""Memory for results that stay on a device: what nobody holds any more is given out again."""

from __future__ import annotations

from contextlib import suppress
from threading import RLock
from weakref import WeakKeyDictionary

from fourfold.forks import ForkSafeLock
from fourfold.players.cuda import binding as cu


class MemoryPool:
    """The spare memory of one context, as long as a player is open there. To free memory the driver
    waits for all that the device does, whosoever it is, and other threads wait for that.
    """

    MOST_BYTES = 64 << 20  # that are kept

    def __init__(self) -> None:
        # Whoever holds the lock may have to collect garbage, and give memory back for that.
        self._lock = ForkSafeLock(RLock)
        self._spare: dict[int, list[cu.DeviceBuffer]] = {}
        self._bytes = self._players = 0

    def take(self, size: int) -> cu.DeviceBuffer:
        """So many bytes; the context is current."""
        with self._lock:
            spare = self._spare.get(size)
            if spare:
                self._bytes -= size
                return spare.pop()
        try:
            return cu.DeviceBuffer(size)
        except cu.Error as error:
            if not error.out_of_memory:
                raise
            self._drain()
            return cu.DeviceBuffer(size)

    def give(self, buffer: cu.DeviceBuffer) -> None:
        """Take memory back that nobody uses any more; the context is current."""
        with self._lock:
            kept = self._players > 0 and self._bytes + buffer.size <= self.MOST_BYTES
            if kept:
                self._bytes += buffer.size
                self._spare.setdefault(buffer.size, []).append(buffer)
        if not kept:
            buffer.release()

    def open(self) -> None:
        """One more player is there."""
        with self._lock:
            self._players += 1

    def close(self) -> None:
        """One of them is gone; with the last one goes what is kept."""
        with self._lock:
            self._players -= 1
            last = not self._players
        if last:
            self._drain()

    def _drain(self) -> None:
        with self._lock:
            spare, self._spare, self._bytes = self._spare, {}, 0
        for buffer in (one for several in spare.values() for one in several):
            with suppress(cu.Error):
                buffer.release()


_pools: WeakKeyDictionary[cu.Context, MemoryPool] = WeakKeyDictionary()
_lock = ForkSafeLock(RLock)


def pool_of(context: cu.Context) -> MemoryPool:
    """That of a context."""
    with _lock:
        return _pools.setdefault(context, MemoryPool())

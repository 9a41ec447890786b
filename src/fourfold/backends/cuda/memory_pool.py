"""Pool of device memory for results that stay on a device."""

from __future__ import annotations

from contextlib import suppress
from threading import RLock
from weakref import WeakKeyDictionary

from fourfold.backends.cuda import binding as cu
from fourfold.support.forks import ForkSafeLock


class MemoryPool:
    """The unused memory of one context while a player is open there.

    It avoids freeing memory: for that the driver waits for all work on the device, and blocks other
    threads.
    """

    MAX_BYTES = 64 << 20  # unused bytes in the pool

    def __init__(self) -> None:
        # Reentrant: garbage collection under the lock may return memory.
        self._lock = ForkSafeLock(RLock)
        self._spare: dict[int, list[cu.DeviceBuffer]] = {}
        self._bytes = self._players = 0

    def take(self, size: int) -> cu.DeviceBuffer:
        """Return memory of this size; the context must be current."""
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
        """Return unused memory to the pool; the context must be current."""
        with self._lock:
            pooled = self._players > 0 and self._bytes + buffer.size <= self.MAX_BYTES
            if pooled:
                self._bytes += buffer.size
                self._spare.setdefault(buffer.size, []).append(buffer)
        if not pooled:
            buffer.release()

    def open(self) -> None:
        """Register a player."""
        with self._lock:
            self._players += 1

    def close(self) -> None:
        """Unregister a player; the last one frees the pool."""
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
    """Return the pool of a context."""
    with _lock:
        return _pools.setdefault(context, MemoryPool())

"""Copy arrays in chunks, so that finished chunks can be used while others are still copied."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from fourfold.support.forks import call_in_child
from fourfold.support.lazy import lazy_import

futures = lazy_import("concurrent.futures")
THREADED_COPY_BYTES = 4 << 20  # below this, one thread finishes before others have woken up
THREAD_CHUNK = 2 << 20  # bytes copied by a thread at a time
MAX_COPY_THREADS = 4


class ChunkedCopy:
    """The chunks of a target array."""

    def __init__(self, target: np.ndarray, chunk: int) -> None:
        """Split the target into chunks of `chunk` bytes, or more if several threads copy."""
        self.target, flat = target, target.reshape(-1)
        self._pool = _pool() if target.nbytes >= THREADED_COPY_BYTES else None
        step = max(chunk, THREAD_CHUNK if self._pool else 0) // target.itemsize
        starts = range(0, flat.size, step)
        self.spans = [(at, min(at + step, flat.size)) for at in starts]  # in elements
        self._chunks = [(flat[slice(*span)], slice(*span), span) for span in self.spans]

    def copy(self, source: np.ndarray) -> Iterator[tuple[int, int]]:
        """Copy an array and yield the range of each finished chunk, in elements and in order."""
        if not source.flags.c_contiguous or source.shape != self.target.shape:
            np.copyto(self.target, source)
            yield from self.spans
            return
        flat = source.reshape(-1)
        copies = None if self._pool is None else self._begin_copies(self._pool, flat)
        if copies is None:
            for chunk, where, span in self._chunks:
                chunk[:] = flat[where]
                yield span
            return
        for copy, span in zip(copies, self.spans, strict=True):
            copy.result()
            yield span

    def _begin_copies(self, pool: Any, flat: np.ndarray) -> list[Any] | None:
        """Submit the copies to threads; None if the interpreter is shutting down and accepts no
        work.
        """
        pairs = [(chunk, flat[where]) for chunk, where, _ in self._chunks]
        try:
            return [pool.submit(np.copyto, *pair) for pair in pairs]
        except RuntimeError:
            return None


def copied(source: np.ndarray, target: np.ndarray | None = None) -> np.ndarray:
    """Copy an array into another one, or into a new one. Large arrays are copied by several
    threads.
    """
    if source.nbytes < THREADED_COPY_BYTES:
        if target is None:
            return source.copy()
        np.copyto(target, source)
        return target
    target = np.empty_like(source) if target is None else target
    for _ in ChunkedCopy(target, THREAD_CHUNK).copy(source):
        pass
    return target


@cache
def _pool() -> Any:
    """Return a thread pool if there are enough cores; one thread does not saturate memory
    bandwidth.
    """
    count = min(MAX_COPY_THREADS, os.cpu_count() or 1)
    return futures.ThreadPoolExecutor(count, "fourfold-copy") if count > 2 else None


call_in_child(_pool.cache_clear)  # a child has none of the threads

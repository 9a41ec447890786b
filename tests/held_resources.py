"""What a process holds: memory, files, threads, and objects of OpenCL drivers."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from fourfold.backends.opencl.binding.objects import Handle

PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


@dataclass(frozen=True)
class Resources:
    """What is held at one moment; -1 where this system does not tell."""

    memory: int  # resident bytes
    files: int
    threads: int
    objects: int  # of Python's, that its collector knows
    handles: Counter[str] = field(default_factory=Counter)  # of a driver, by kind

    def beyond(self, before: Resources) -> dict[str, int]:
        """What is held now and was not before, memory aside."""
        more = {"files": self.files - before.files, "threads": self.threads - before.threads}
        more |= {kind: self.handles[kind] - before.handles[kind] for kind in self.handles}
        return {name: count for name, count in more.items() if count > 0}


class HandleCount:
    """Handles that were made and not yet given back."""

    def __init__(self) -> None:
        self._lock, self.live = threading.Lock(), Counter[str]()

    def add(self, kind: str, count: int) -> None:
        with self._lock:
            self.live[kind] += count

    def resources(self) -> Resources:
        """What is held after all garbage is collected, and memory that is free given back."""
        gc.collect()
        _trim()
        with self._lock:
            files, threads = (_entries(f"/proc/self/{folder}") for folder in ("fd", "task"))
            return Resources(_resident(), files, threads, len(gc.get_objects()), +self.live)


@contextmanager
def counted_handles() -> Iterator[HandleCount]:
    """Count from here on; handles that were made before must stay."""
    count, begin, end = HandleCount(), Handle.__init__, Handle.release

    def counting_begin(self: Handle, pointer: Any) -> None:
        begin(self, pointer)
        count.add(self._kind, 1)

    def counting_end(self: Handle) -> None:
        held = self.pointer is not None
        end(self)
        if held:
            count.add(self._kind, -1)

    Handle.__init__, Handle.release = counting_begin, counting_end  # type: ignore[method-assign]
    try:
        yield count
    finally:
        Handle.__init__, Handle.release = begin, end  # type: ignore[method-assign]


def _resident() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * PAGE
    except OSError:
        return -1


def _entries(folder: str) -> int:
    try:
        return len(os.listdir(folder))
    except OSError:
        return -1


def _trim() -> None:
    """Let C's allocator give back what is free, so that only what is held counts."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)

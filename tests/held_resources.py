"""Resources of a process: memory, files, threads, and OpenCL objects."""

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
    """Resources at one moment; -1 if the system does not report a number."""

    memory: int  # resident bytes
    files: int
    threads: int
    objects: int  # Python objects tracked by the garbage collector
    handles: Counter[str] = field(default_factory=Counter)  # driver objects by kind

    def beyond(self, before: Resources) -> dict[str, int]:
        """Return resources held now and not before, except memory."""
        more = {"files": self.files - before.files, "threads": self.threads - before.threads}
        more |= {kind: self.handles[kind] - before.handles[kind] for kind in self.handles}
        return {name: count for name, count in more.items() if count > 0}


class HandleCount:
    """Handles that were created and not released."""

    def __init__(self) -> None:
        self._lock, self.live = threading.Lock(), Counter[str]()

    def add(self, kind: str, count: int) -> None:
        with self._lock:
            self.live[kind] += count

    def resources(self) -> Resources:
        """Return resources after garbage collection and trimming of free memory."""
        gc.collect()
        _trim()
        with self._lock:
            files, threads = (_entries(f"/proc/self/{folder}") for folder in ("fd", "task"))
            return Resources(_resident(), files, threads, len(gc.get_objects()), +self.live)


@contextmanager
def counted_handles() -> Iterator[HandleCount]:
    """Count handles from here on; earlier handles must stay."""
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
    """Return free memory of the C allocator to the system, so that only held memory counts."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)

"""Seconds spent in each stage between a request and a ready model."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fourfold.support.log import Log

log = Log("support.timings")


class Timings(dict[str, float]):
    """Seconds per stage, in execution order; repeated stages add up.

    `spans` lists every stage with its name, start and end in `time.perf_counter` seconds. `began`
    is the time of the request on the same clock.
    """

    def __init__(self) -> None:
        super().__init__()
        self.spans: list[tuple[str, float, float]] = []
        self.began = time.perf_counter()
        self.listener: Callable[[str], None] | None = None

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time the work inside; a stage that raises is not recorded."""
        self.begins(name)
        began = time.perf_counter()
        yield
        self.add(name, time.perf_counter() - began)

    def begins(self, name: str) -> None:
        """Notify the listener that a stage begins."""
        if self.listener is not None:
            self.listener(name)

    def add(self, name: str, seconds: float, ended: float | None = None) -> None:
        """Record a stage that ended now, or at the time `ended`."""
        self[name] = self.get(name, 0.0) + seconds
        ended = time.perf_counter() if ended is None else ended
        self.spans.append((name, ended - seconds, ended))
        log.debug("%s: %.1f ms", name, seconds * 1e3)

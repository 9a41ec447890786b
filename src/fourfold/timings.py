"""Timings: the seconds of each stage between a request and a model that is ready."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fourfold.log import Log

log = Log("timings")


class Timings(dict[str, float]):
    """Seconds by stage, in the order in which stages were done; one that comes again adds up.
    `spans` has each by itself: its name, and when it began and ended by `time.perf_counter`;
    `began` is when the request was made, by the same clock.
    """

    def __init__(self) -> None:
        super().__init__()
        self.spans: list[tuple[str, float, float]] = []
        self.began = time.perf_counter()
        self.listener: Callable[[str], None] | None = None

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Times what is done inside; a stage that raises was not done, and is not noted."""
        self.begins(name)
        began = time.perf_counter()
        yield
        self.add(name, time.perf_counter() - began)

    def begins(self, name: str) -> None:
        """A stage begins: who waits for it is told."""
        if self.listener is not None:
            self.listener(name)

    def add(self, name: str, seconds: float, ended: float | None = None) -> None:
        """Note a stage that has ended just now, or then."""
        self[name] = self.get(name, 0.0) + seconds
        ended = time.perf_counter() if ended is None else ended
        self.spans.append((name, ended - seconds, ended))
        log.debug("%s: %.1f ms", name, seconds * 1e3)

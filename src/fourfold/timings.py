"""Timings: the seconds of each stage between a request and a model that is ready."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fourfold.log import Log

log = Log("timings")


class Timings(dict[str, float]):
    """Seconds by stage, in the order in which stages were done; one that comes again adds up.
    `began` is when the request was made, by `time.perf_counter`.
    """

    def __init__(self) -> None:
        super().__init__()
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

    def add(self, name: str, seconds: float) -> None:
        self[name] = self.get(name, 0.0) + seconds
        log.debug("%s: %.1f ms", name, seconds * 1e3)

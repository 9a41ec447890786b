"""Timings: the seconds of each stage between a request and a model that is ready."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Timings(dict[str, float]):
    """Seconds by stage, in the order in which stages were done; one that comes again adds up."""

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Times what is done inside; a stage that raises was not done, and is not noted."""
        began = time.perf_counter()
        yield
        self.add(name, time.perf_counter() - began)

    def add(self, name: str, seconds: float) -> None:
        self[name] = self.get(name, 0.0) + seconds

"""Progress of long work: how much is done, what is next, and how long the rest may take."""

from __future__ import annotations

import time

from fourfold.progress import Progress


class ProgressCounter:
    """Counts what is done of one kind of work, and tells who listens."""

    def __init__(self, listener: Progress | None) -> None:
        self._listener = listener
        self._done, self._total, self._began = 0, 0, time.monotonic()

    def expect(self, total: int) -> None:
        """New work begins, of so many steps."""
        self._done, self._total, self._began = 0, total, time.monotonic()

    def done(self, title: str) -> None:
        """One step is done."""
        self._done += 1
        if self._listener is not None:
            passed = time.monotonic() - self._began
            left = passed / self._done * max(self._total - self._done, 0)
            self._listener(self._done, self._total, title, left)

"""Report progress of long work, with an estimate of the remaining time."""

from __future__ import annotations

import time

from fourfold.support.progress import Progress


class ProgressCounter:
    """Counts steps and reports them to a listener."""

    def __init__(self, listener: Progress | None) -> None:
        self._listener = listener
        self._done, self._total, self._began = 0, 0, time.monotonic()

    def expect(self, total: int) -> None:
        """Start new work with this number of steps."""
        self._done, self._total, self._began = 0, total, time.monotonic()

    def done(self, title: str) -> None:
        """Count one finished step."""
        self._done += 1
        if self._listener is not None:
            passed = time.monotonic() - self._began
            left = passed / self._done * max(self._total - self._done, 0)
            self._listener(self._done, self._total, title, left)

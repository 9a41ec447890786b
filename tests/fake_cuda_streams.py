"""Streams of the fake driver: commands run when something waits for them, not before.

Code that reads results too early, or forgets to synchronize streams, sees old values.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

Work = Callable[[], None]
DEFAULT = 1


class FakeEvent:
    """A position in a stream; None if never recorded, or reached."""

    def __init__(self) -> None:
        self.stream: FakeStream | None = None
        self.place = 0


class FakeStream:
    """Commands in order. `captured` holds the commands of a graph during capture."""

    def __init__(self) -> None:
        self._waiting: deque[Work] = deque()
        self._done = 0
        self.captured: list[Work] | None = None

    def put(self, work: Work) -> None:
        if self.captured is None:
            self._waiting.append(work)
        else:
            self.captured.append(work)

    @property
    def place(self) -> int:
        """Number of commands ever enqueued."""
        return self._done + len(self._waiting)

    @property
    def is_idle(self) -> bool:
        return not self._waiting

    def run_to(self, place: int) -> None:
        while self._done < place and self._waiting:
            work = self._waiting.popleft()
            self._done += 1
            work()

    def finish(self) -> None:
        self.run_to(self.place)


def record(event: FakeEvent, stream: FakeStream) -> None:
    event.stream, event.place = stream, stream.place


def wait_for(stream: FakeStream, event: FakeEvent) -> None:
    """Wait for the current state of the event, not for a later record."""
    other, place = event.stream, event.place
    if other is not None:
        stream.put(lambda: other.run_to(place))


def reach(event: FakeEvent) -> None:
    if event.stream is not None:
        event.stream.run_to(event.place)

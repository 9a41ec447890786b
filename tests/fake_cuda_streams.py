"""Streams of an imagined driver: what is put in is done when somebody waits for it, not before.

So whoever reads results too early, or forgets that one stream must wait for another, finds what was
there before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

Work = Callable[[], None]
DEFAULT = 1


class FakeEvent:
    """A place in a stream; None where it was never recorded, or was reached."""

    def __init__(self) -> None:
        self.stream: FakeStream | None = None
        self.place = 0


class FakeStream:
    """Commands in order. `captured` is what a graph is made of, while one is."""

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
        """How many commands were ever put in."""
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
    """What the event stands for now, not when the stream comes to it."""
    other, place = event.stream, event.place
    if other is not None:
        stream.put(lambda: other.run_to(place))


def reach(event: FakeEvent) -> None:
    if event.stream is not None:
        event.stream.run_to(event.place)

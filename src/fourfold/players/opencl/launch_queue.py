"""Where launches are put in: a queue of a player's own, or one that several share."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from ctypes import byref, c_void_p
from weakref import WeakKeyDictionary

from fourfold.plan import Plan
from fourfold.players.opencl import binding as cl

_shared: WeakKeyDictionary[cl.Context, LaunchQueue] = WeakKeyDictionary()
_shared_lock = threading.Lock()


class LaunchQueue:
    """A queue for launches. `alone` keeps those of other players away, where they share it."""

    def __init__(self, queue: cl.Queue, lock: AbstractContextManager[object]) -> None:
        self.queue, self._lock = queue, lock

    def launch(self, calls: Sequence[cl.Call]) -> None:
        with self._lock:
            self.queue.replay(calls)

    def launch_after(self, before: cl.Event | None, calls: Sequence[cl.Call]) -> cl.Event:
        """Launch when a command of another queue has ended. The event is that of the last one."""
        done = c_void_p()
        first, last = [*calls[0]], [*calls[-1]]
        if before is not None:
            waiting = [1, byref(before.handle)]
            first[-3:-1] = waiting
            if len(calls) == 1:
                last[-3:-1] = waiting
        last[-1] = byref(done)
        middle = calls[1:-1] if len(calls) > 1 else ()
        one = [tuple(first)] if len(calls) > 1 else []
        with self._lock:
            self.queue.replay([*one, *middle, tuple(last)])
        return cl.Event(done)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """While nothing that was put in here runs, and nobody puts more in."""
        with self._lock:
            self.queue.finish()
            yield


def launch_queue(context: cl.Context, plan: Plan, shared: int = 0) -> LaunchQueue:
    """A queue for a plan: the caller's, where it is `shared`.

    Groups of a persistent kernel wait for each other, so all of them must be on the GPU at once:
    two such kernels could each hold half of it and wait for ever. They never meet, since all of a
    device are put into one queue.
    """
    if not plan.requirements.resident_groups:
        return LaunchQueue(cl.Queue.of(shared) if shared else cl.Queue(context), nullcontext())
    with _shared_lock:
        if context not in _shared:
            queue = cl.Queue.of(shared) if shared else cl.Queue(context)
            _shared[context] = LaunchQueue(queue, threading.Lock())
        return _shared[context]


class Queues:
    """The queues of runs in flight: launches, and copies beside them where a device can do both."""

    def __init__(self, context: cl.Context, launches: LaunchQueue, beside: bool) -> None:
        self.launches, self._beside = launches, beside
        self.uploads = cl.Queue(context) if beside else launches.queue
        self.downloads = cl.Queue(context) if beside else launches.queue

    def uploaded(self) -> cl.Event | None:
        """The event that all uploads have ended; None where launches come after them anyway."""
        if not self._beside:
            return None
        event = self.uploads.mark()
        self.uploads.flush()
        return event

    def begin_downloads(self, launched: cl.Event) -> None:
        """Let downloads wait for launches."""
        if self._beside:
            self.launches.queue.flush()
            self.downloads.wait_for(launched)

    def flush(self) -> None:
        self.launches.queue.flush()
        if self._beside:
            self.downloads.flush()

    def finish(self) -> None:
        """Wait for all that was put in."""
        for queue in (self.uploads, self.launches.queue, self.downloads):
            queue.finish()

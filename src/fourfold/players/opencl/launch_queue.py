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
        waiting = (0, None) if before is None else (1, byref(before.handle))
        first, last = calls[0], calls[-1]
        if len(calls) == 1:
            ready = [(*first[:-3], *waiting, byref(done))]
        else:
            ready = [(*first[:-3], *waiting, None), *calls[1:-1], (*last[:-1], byref(done))]
        with self._lock:
            self.queue.replay(ready)
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

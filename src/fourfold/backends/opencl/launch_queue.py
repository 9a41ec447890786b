"""Queues for launches: one per player, or one shared by several."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from ctypes import byref, c_void_p
from weakref import WeakKeyDictionary

from fourfold.backends.opencl import binding as cl
from fourfold.plan import Plan

_shared: WeakKeyDictionary[cl.Context, LaunchQueue] = WeakKeyDictionary()
_shared_lock = threading.Lock()


class LaunchQueue:
    """A queue for launches. `alone` excludes other players that share it."""

    def __init__(self, queue: cl.Queue, lock: AbstractContextManager[object]) -> None:
        self.queue, self.lock = queue, lock

    def launch(self, calls: Sequence[cl.Call], after: cl.Event | None = None) -> None:
        """Submit launches, which wait for a command of another queue if one is given."""
        if after is not None:
            first, *others = calls
            calls = [(*first[:-3], 1, byref(after.handle), first[-1]), *others]
        with self.lock:
            self.queue.replay(calls)

    def launch_watched(self, calls: Sequence[cl.Call], after: cl.Event | None) -> cl.Event:
        """Submit launches; the event is set when the last one has ended."""
        *others, last = calls
        done = c_void_p()
        self.launch([*others, (*last[:-1], byref(done))], after)
        return cl.Event(done)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Context manager that waits for all submitted work and blocks further submissions."""
        with self.lock:
            self.queue.finish()
            yield


def launch_queue(context: cl.Context, plan: Plan, shared: int = 0) -> LaunchQueue:
    """Return a queue for a plan: the caller's if `shared` is set.

    Work-groups of a persistent kernel wait for each other, so all of them must be on the GPU at
    once. Two such kernels could each occupy half of it and wait forever. All of a device are
    therefore submitted to one queue.
    """
    if not plan.requirements.resident_groups:
        return LaunchQueue(cl.Queue.of(shared) if shared else cl.Queue(context), nullcontext())
    with _shared_lock:
        if context not in _shared:
            queue = cl.Queue.of(shared) if shared else cl.Queue(context)
            _shared[context] = LaunchQueue(queue, threading.Lock())
        return _shared[context]

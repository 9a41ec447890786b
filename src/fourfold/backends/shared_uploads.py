"""Constants in device memory, uploaded once for all players of a context."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from fourfold.plan import Buffer, Plan
from fourfold.support.forks import ForkSafeLock

T = TypeVar("T")


class Upload(Generic[T]):
    """A copy of an array in device memory. It holds the array, so that its id is not reused."""

    def __init__(self, array: np.ndarray, memory: T) -> None:
        self.array, self.memory = array, memory


class SharedUploads(Generic[T]):
    """The uploads that players currently hold; an upload is freed with its last user."""

    def __init__(self) -> None:
        # Keyed by the array's identity, since equal constants of a process are one array.
        self._live: WeakValueDictionary[tuple[Hashable, int, int, int], Upload[T]]
        self._live, self._lock = WeakValueDictionary(), ForkSafeLock(Lock)

    def hold(
        self, context: Hashable, plan: Plan, buffer: Buffer, upload: Callable[[np.ndarray], T]
    ) -> Upload[T]:
        """Return the constants of a plan's buffer as already uploaded in this context, or upload
        them.
        """
        key = (context, id(plan.constants), buffer.start or 0, buffer.bytes)
        with self._lock:
            held = self._live.get(key)
            if held is None:
                held = Upload(plan.constants, upload(plan.constants_in(buffer)))
                self._live[key] = held
            return held

"""Constants in device memory: uploaded once for all players of a context that hold them."""

from __future__ import annotations

from threading import Lock
from weakref import WeakValueDictionary

import numpy as np

from fourfold.plan import Buffer, Plan
from fourfold.players.opencl import binding as cl


class _Upload(cl.Buffer):
    """A copy of an array. It holds the array: no other one gets its address meanwhile."""

    array: np.ndarray


# By the array's identity, since equal constants of a process are one array, and where it begins.
_live: WeakValueDictionary[tuple[cl.Context, int, int, int], _Upload] = WeakValueDictionary()
_lock = Lock()


class SharedBuffer(cl.Buffer):
    """One player's hold of a buffer that others may hold, too; the last one gives it back."""

    def __init__(self, held: cl.Buffer) -> None:
        self.pointer, self._held = held.pointer, held

    def release(self) -> None:
        self.pointer = None
        self.__dict__.pop("_held", None)


def upload_constants(context: cl.Context, plan: Plan, buffer: Buffer) -> cl.Buffer:
    """The constants in a buffer of a plan as another player of this context has them, else a new
    copy of them.
    """
    key = (context, id(plan.constants), buffer.start or 0, buffer.bytes)
    with _lock:
        held = _live.get(key)
        if held is None:
            held = _Upload.of(context, plan.constants_in(buffer))
            held.array = plan.constants
            _live[key] = held
        return SharedBuffer(held)

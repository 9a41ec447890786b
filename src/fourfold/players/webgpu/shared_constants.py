"""Constants in device memory, uploaded once for all players of a device."""

from __future__ import annotations

from weakref import WeakValueDictionary

import numpy as np

from fourfold.forks import ForkSafeLock
from fourfold.plan import Buffer, Plan, padded
from fourfold.players.webgpu import binding as wg
from fourfold.players.webgpu.memory import USAGE, write_buffer


class _Upload(wg.Buffer):
    """A copy of an array. It holds the array, so that its id is not reused."""

    array: np.ndarray

    def __del__(self) -> None:
        if getattr(self, "pointer", None) is not None:
            self.release()


# Keyed by the array's identity, since equal constants of a process are one array, and the start.
_live: WeakValueDictionary[tuple[wg.Device, int, int, int], _Upload] = WeakValueDictionary()
_lock = ForkSafeLock()


class SharedBuffer(wg.Buffer):
    """One player's reference to a shared buffer; the last one frees it."""

    def __init__(self, held: wg.Buffer) -> None:
        self.device, self.size, self.pointer = held.device, held.size, held.pointer
        self._held: wg.Buffer | None = held

    def release(self) -> None:
        self.pointer = self._held = None


def upload_constants(device: wg.Device, plan: Plan, buffer: Buffer) -> wg.Buffer:
    """Return the constants of a plan's buffer as already uploaded to this device, or
    upload them.
    """
    key = (device, id(plan.constants), buffer.start or 0, buffer.bytes)
    with _lock:
        held = _live.get(key)
        if held is None:
            held = _Upload(device, padded(buffer.bytes), USAGE)
            held.array = plan.constants
            write_buffer(held, 0, plan.constants_in(buffer))
            _live[key] = held
        return SharedBuffer(held)

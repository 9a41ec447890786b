"""Sharing of equal constants between all plans of a process."""

from __future__ import annotations

from weakref import ref

import numpy as np

from fourfold.support.forks import ForkSafeLock

CHUNK = 1 << 20  # bytes to compare at a time

_live: dict[int, list[ref[np.ndarray]]] = {}  # constants in use, by size in bytes
_lock = ForkSafeLock()


def share_constants(constants: np.ndarray) -> np.ndarray:
    """Return these constants, or an equal array that another plan of this process holds.

    Nothing is read if no other constants have the same size, as in a process that opens its first
    model.
    """
    with _lock:
        candidates = [one for one in _live.get(constants.nbytes, ()) if one() is not None]
        for one in candidates:
            other = one()
            if other is not None and _is_equal(other, constants):
                return other
        constants.flags.writeable = False  # several plans may share them
        _live[constants.nbytes] = [*candidates, ref(constants)]
    return constants


def _is_equal(one: np.ndarray, other: np.ndarray) -> bool:
    """Return whether two arrays hold the same bytes. Most differ in the first chunk."""
    if one.ctypes.data == other.ctypes.data:
        return True
    starts = range(0, one.nbytes, CHUNK)
    return all(np.array_equal(one[at : at + CHUNK], other[at : at + CHUNK]) for at in starts)

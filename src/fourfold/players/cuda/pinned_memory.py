"""Pinned host memory as arrays."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from fourfold.plan import Port
from fourfold.players.cuda import binding as cu


class PinnedMemory:
    """Host memory that the device accesses directly by the same address. It lives as long as this
    object or an array of it.
    """

    def __init__(self, context: cu.Context, size: int) -> None:
        self._context, self._buffer = context, cu.HostBuffer(size)
        self.address, self.size = self._buffer.address, size
        where = (self.address, False)
        self.__array_interface__ = {"shape": (size,), "typestr": "|u1", "data": where, "version": 3}

    def view(self, port: Port) -> np.ndarray:
        """Return its beginning as the array of a port."""
        flat: np.ndarray = np.asarray(self)[: port.type.bytes].view(port.type.dtype.numpy)
        return flat.reshape(port.type.shape)

    def __del__(self) -> None:
        if hasattr(self, "_buffer"):
            with suppress(cu.Error), self._context:  # the process may be exiting
                self._buffer.release()

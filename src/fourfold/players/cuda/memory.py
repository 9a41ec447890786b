"""Memory of a CUDA device that belongs to no plan."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.players.cuda import binding as cu
from fourfold.players.cuda.devices import context_of
from fourfold.players.cuda.failures import explained
from fourfold.players.dlpack_devices import CUDA


class CudaMemory:
    """Some bytes of a device's memory."""

    shape: tuple[int, ...] | None = None
    dtype: np.dtype | None = None
    host: np.ndarray | None = None

    def __init__(self, device: DeviceInfo, size: int) -> None:
        self.dlpack_device = (CUDA, device.ordinal)
        self.size, self.device, self._context = size, device, context_of(device)
        with self._working("setting memory aside"):
            self._stream, self._buffer = cu.Stream(), cu.DeviceBuffer(max(size, 1))

    @property
    def handle(self) -> int:
        """Its address."""
        return self._buffer.address

    @property
    def place(self) -> tuple[int, int]:
        return self.handle, 0

    def read(self, array: np.ndarray) -> None:
        with self._working("reading memory"):
            self._stream.read(self._buffer.address, array)
            self._stream.finish()

    def write(self, array: np.ndarray) -> None:
        with self._working("writing memory"):
            self._stream.write(self._buffer.address, np.ascontiguousarray(array))
            self._stream.finish()

    @contextmanager
    def _working(self, doing: str) -> Iterator[None]:
        with explained(doing, self.device, self.size), self._context.current():
            yield

    def __del__(self) -> None:
        if getattr(self, "_buffer", None) is not None:
            with suppress(cu.Error), self._context.current():  # the process may be at its end
                self._buffer.release()
                self._stream.release()

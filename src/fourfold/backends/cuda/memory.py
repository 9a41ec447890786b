"""CUDA memory outside of plans: our own, and that of other libraries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import numpy as np

from fourfold.backends.cuda import binding as cu
from fourfold.backends.cuda.devices import context_of, stream_of
from fourfold.backends.cuda.failures import ActiveContext
from fourfold.backends.cuda.memory_pool import pool_of
from fourfold.backends.dlpack_devices import CUDA
from fourfold.backends.protocol import SameMemory
from fourfold.device import DeviceInfo
from fourfold.plan import padded


class CudaMemory:
    """A range of device memory, or of pinned host memory, which the device can access as well.
    `shape` and `dtype` are set if the owner reported them.
    """

    host: np.ndarray | None = None
    is_same: SameMemory | None = None

    def __init__(self, device: DeviceInfo, address: int, size: int, owner: object) -> None:
        """`owner` is kept alive as long as this object."""
        self.device, self.address, self.size, self._owner = device, address, size, owner
        self.shape: tuple[int, ...] | None = None
        self.dtype: np.dtype | None = None
        self.read_only = False
        self.is_pinned = False  # whether it is host memory
        # Whether other libraries may have submitted work on it to the default stream.
        self.used_by_others = True
        self.dlpack_device = (CUDA, device.ordinal)

    @property
    def handle(self) -> int:
        """Address of the memory. Whoever requests it may use it from now on."""
        self.used_by_others = True
        return self.address

    @property
    def place(self) -> tuple[int, int]:
        """Offset in the single address space."""
        return 0, self.address

    def read(self, array: np.ndarray) -> None:
        """Copy its beginning to the host."""
        with self._stream("reading memory") as stream:
            stream.read(self.address, array)
            stream.finish()

    def write(self, array: np.ndarray) -> None:
        """Copy an array into its beginning."""
        with self._stream("writing memory") as stream:
            stream.write(self.address, np.ascontiguousarray(array))
            stream.finish()

    @contextmanager
    def _stream(self, doing: str) -> Iterator[cu.Stream]:
        """Yield a stream for copies, ordered after the work of other libraries."""
        with ActiveContext(doing, self.device, context_of(self.device), self.size):
            stream = stream_of(self.device)
            if self.used_by_others and not self.device.shared_queue:
                stream.follow_default()
            yield stream


class OwnMemory(CudaMemory):
    """Newly allocated memory, returned to the pool when it is deleted.

    If another library may still have work for it in some stream, it is freed instead, and the
    driver waits for that work.
    """

    def __init__(self, device: DeviceInfo, size: int) -> None:
        self._context = context_of(device)
        with ActiveContext("allocating memory", device, self._context, size):
            self._buffer = pool_of(self._context).take(padded(size))
        super().__init__(device, self._buffer.address, self._buffer.size, None)
        self.used_by_others = False

    def __del__(self) -> None:
        if hasattr(self, "used_by_others"):
            with suppress(cu.Error), self._context:  # the process may be exiting
                if self.used_by_others:
                    self._buffer.release()
                else:
                    pool_of(self._context).give(self._buffer)

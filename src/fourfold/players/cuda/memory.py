"""Memory of a CUDA device that belongs to no plan: our own, and that of other libraries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.plan import padded
from fourfold.players.cuda import binding as cu
from fourfold.players.cuda.devices import context_of, stream_of
from fourfold.players.cuda.failures import Working
from fourfold.players.cuda.memory_pool import pool_of
from fourfold.players.dlpack_devices import CUDA
from fourfold.players.protocol import SameMemory


class CudaMemory:
    """So many bytes from an address on: of a device's memory, or of pinned memory of the host,
    which the device reaches as well. `shape` and `dtype` are known where its owner told them.
    """

    host: np.ndarray | None = None
    is_same: SameMemory | None = None

    def __init__(self, device: DeviceInfo, address: int, size: int, owner: object) -> None:
        """`owner` is whose memory it is; held for as long as this is."""
        self.device, self.address, self.size, self._owner = device, address, size, owner
        self.shape: tuple[int, ...] | None = None
        self.dtype: np.dtype | None = None
        self.read_only = False
        self.is_pinned = False  # whether it is memory of the host
        self.is_foreign = True  # whether others may have put work on it into the default stream
        self.dlpack_device = (CUDA, device.ordinal)

    @property
    def handle(self) -> int:
        """Its address. Who has that may use it from now on."""
        self.is_foreign = True
        return self.address

    @property
    def place(self) -> tuple[int, int]:
        """All addresses are of one space."""
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
        """A stream for copies, behind what others have put into theirs."""
        with Working(doing, self.device, context_of(self.device), self.size):
            stream = stream_of(self.device)
            if self.is_foreign and not self.device.shared_queue:
                stream.follow_default()
            yield stream


class OwnMemory(CudaMemory):
    """Fresh memory. It goes back when nobody holds it any more: for others to use, unless another
    library may still have work for it in some stream; then the driver waits for that.
    """

    def __init__(self, device: DeviceInfo, size: int) -> None:
        self._context = context_of(device)
        with Working("setting memory aside", device, self._context, size):
            self._buffer = pool_of(self._context).take(padded(size))
        super().__init__(device, self._buffer.address, self._buffer.size, None)
        self.is_foreign = False

    def __del__(self) -> None:
        if hasattr(self, "is_foreign"):
            with suppress(cu.Error), self._context:  # the process may be at its end
                if self.is_foreign:
                    self._buffer.release()
                else:
                    pool_of(self._context).give(self._buffer)

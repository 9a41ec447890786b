"""WebGPU device memory outside of plans."""

from __future__ import annotations

import numpy as np

from fourfold.backends.dlpack_devices import WEBGPU
from fourfold.backends.protocol import SameMemory
from fourfold.backends.webgpu import binding as wg
from fourfold.backends.webgpu.devices import device_of
from fourfold.backends.webgpu.failures import convert_errors
from fourfold.device import DeviceInfo
from fourfold.plan import padded

USAGE = wg.STORAGE | wg.COPY_SOURCE | wg.COPY_TARGET


class WebGpuMemory:
    """A buffer in device memory."""

    shape: tuple[int, ...] | None = None
    dtype: np.dtype | None = None
    host: np.ndarray | None = None
    read_only = False
    is_same: SameMemory | None = None

    def __init__(self, info: DeviceInfo, size: int) -> None:
        self.size, self.device = size, info
        self.dlpack_device = (WEBGPU, info.ordinal)
        with convert_errors("allocating memory", info, size):
            self.buffer = wg.Buffer(device_of(info), padded(size), USAGE)

    @property
    def handle(self) -> int:
        """Handle of the buffer in the library."""
        return self.buffer.pointer or 0

    @property
    def place(self) -> tuple[int, int]:
        return self.handle, 0

    def read(self, array: np.ndarray) -> None:
        with convert_errors("reading memory", self.device, self.size):
            read_buffer(self.buffer, 0, array)

    def write(self, array: np.ndarray) -> None:
        with convert_errors("writing memory", self.device, self.size):
            write_buffer(self.buffer, 0, array)

    def __del__(self) -> None:
        if hasattr(self, "buffer"):
            self.buffer.release()


def read_buffer(buffer: wg.Buffer, offset: int, array: np.ndarray) -> None:
    """Copy from byte `offset` of a buffer, a multiple of four, into an array."""
    size = whole_words(array.nbytes)
    if not size:
        return
    staging = wg.Staging(buffer.device, size, upload=False)
    try:
        commands = wg.Commands(buffer.device)
        commands.copy(buffer, offset, staging, 0, size)
        index = commands.submit()
        staging.ask()
        buffer.device.wait(index)
        array.reshape(-1).view(np.uint8)[:] = staging.bytes()[: array.nbytes]
    finally:
        staging.release()


def write_buffer(buffer: wg.Buffer, offset: int, array: np.ndarray) -> None:
    """Copy an array to byte `offset` of a buffer, a multiple of four. Its end is padded with zeros
    to a whole word.
    """
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    padding = -flat.size % wg.WORD
    flat = np.concatenate((flat, np.zeros(padding, np.uint8))) if padding else flat
    if flat.size and buffer.pointer is not None:
        buffer.device.write(buffer.pointer, offset, flat)


def whole_words(size: int) -> int:
    """Round a number of bytes up to whole words, as copies require."""
    return -(-size // wg.WORD) * wg.WORD

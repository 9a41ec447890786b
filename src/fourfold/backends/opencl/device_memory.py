"""OpenCL device memory of the caller, or of results that stay on the device."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from fourfold.backends.dlpack_devices import CPU, OPENCL
from fourfold.backends.opencl import binding as cl
from fourfold.backends.opencl.devices import context_of, queue_of
from fourfold.backends.opencl.port_memory import PinnedMemory
from fourfold.backends.protocol import SameMemory
from fourfold.device import DeviceInfo
from fourfold.plan import padded

# Of CL_MEM: the buffer that it is a part of, and the offset there.
_ASSOCIATED, _OFFSET = 0x1107, 0x1108


class OpenCLMemory:
    """A part of a buffer from `start` on, or an image of `texels` (width and height).

    `shape` and `dtype` are set if its owner reported them.
    """

    is_same: SameMemory | None = None

    def __init__(
        self,
        info: DeviceInfo,
        buffer: cl.Buffer,
        size: int,
        start: int = 0,
        texels: tuple[int, int] | None = None,
    ) -> None:
        self.info, self.buffer, self.size = info, buffer, size
        self.start, self.texels = start, texels
        self.context = context_of(info)  # only kernels of this context can access it
        self.shape: tuple[int, ...] | None = None
        self.dtype: np.dtype | None = None
        self.read_only = False
        self.owner: object = None  # kept alive as long as this object
        self.host: np.ndarray | None = None
        self.dlpack_device = (OPENCL, info.ordinal)

    @staticmethod
    def make(info: DeviceInfo, size: int) -> OpenCLMemory:
        """Allocate memory; on a CPU whose buffers may stay mapped the host can access
        it as well.
        """
        context = context_of(info)
        if not (info.is_cpu and info.persistent_mapping):
            return OpenCLMemory(info, cl.Buffer(context, padded(size)), padded(size))
        pinned = PinnedMemory(context, queue_of(info), padded(size))
        memory = OpenCLMemory(info, pinned.buffer, padded(size))
        memory.host, memory.dlpack_device = np.asarray(pinned), (CPU, 0)
        return memory

    @property
    def handle(self) -> int:
        """The cl_mem as a number."""
        pointer = self.buffer.pointer
        return 0 if pointer is None else pointer.value or 0

    @cached_property
    def place(self) -> tuple[int, int]:
        """Allocation that it is a part of, since callers may split it, and the offset there."""
        allocation = self.buffer.number(_ASSOCIATED) or self.handle
        return allocation, self.start + self.buffer.number(_OFFSET)

    def read(self, array: np.ndarray) -> None:
        """Copy its beginning to the host."""
        if self.host is not None:
            array.reshape(-1).view(np.uint8)[:] = self.host[: array.nbytes]
            return
        queue = queue_of(self.info)
        if self.texels is not None:
            between = cl.Buffer(context_of(self.info), self.size)
            queue.copy_image(self.buffer, between, self.texels)
            queue.read(between, array)
        elif array.size:
            queue.read(self.buffer, array, self.start)

    def write(self, array: np.ndarray) -> None:
        """Copy an array into its beginning.

        Mapped memory is not written with a command: OpenCL does not define the result, and with
        some drivers the host does not see it.
        """
        if self.host is not None:
            self.host[: array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            return
        queue = queue_of(self.info)
        if self.texels is not None:
            between = cl.Buffer.of(context_of(self.info), array)
            queue.copy_to_image(between, self.buffer, self.texels)
            queue.finish()
        elif array.size:
            queue.write(self.buffer, array, self.start)

"""Memory of an OpenCL device that a caller has, or that results stay in."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.plan import padded
from fourfold.players.dlpack_devices import CPU, OPENCL
from fourfold.players.opencl import binding as cl
from fourfold.players.opencl.devices import context_of, queue_of
from fourfold.players.opencl.port_memory import PinnedMemory
from fourfold.players.protocol import SameMemory

_ASSOCIATED, _OFFSET = 0x1107, 0x1108  # of CL_MEM: what it is a part of, and where


class OpenCLMemory:
    """Some bytes of a buffer from `start` on, or an image of so many `texels` in width and height.
    `shape` and `dtype` are known where its owner told them.
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
        self.context = context_of(info)  # kernels of no other one reach it
        self.shape: tuple[int, ...] | None = None
        self.dtype: np.dtype | None = None
        self.read_only = False
        self.owner: object = None  # whose memory it is; held for as long as this is
        self.host: np.ndarray | None = None
        self.dlpack_device = (OPENCL, info.ordinal)

    @staticmethod
    def make(info: DeviceInfo, size: int) -> OpenCLMemory:
        """Fresh memory; on a CPU whose buffers may stay mapped the host sees it, too."""
        context = context_of(info)
        if not (info.is_cpu and info.persistent_mapping):
            return OpenCLMemory(info, cl.Buffer(context, padded(size)), padded(size))
        pinned = PinnedMemory(context, queue_of(info), padded(size))
        made = OpenCLMemory(info, pinned.buffer, padded(size))
        made.host, made.dlpack_device = np.asarray(pinned), (CPU, 0)
        return made

    @property
    def handle(self) -> int:
        """The cl_mem as a number."""
        pointer = self.buffer.pointer
        return 0 if pointer is None else pointer.value or 0

    @cached_property
    def place(self) -> tuple[int, int]:
        """The memory that it is a part of, since callers may split it, and where it begins."""
        whole = self.buffer.number(_ASSOCIATED) or self.handle
        return whole, self.start + self.buffer.number(_OFFSET)

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
        """Copy an array into its beginning; not by a command where it is mapped, since what that
        does is not defined, and not all drivers let the host see it.
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

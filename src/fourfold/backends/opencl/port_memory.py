"""Memory of the inputs and outputs of one run, on the host and on the device."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from typing import Protocol

import numpy as np

from fourfold.backends.opencl import binding as cl
from fourfold.backends.opencl.arguments import BufferLocation
from fourfold.plan import Port, padded

PAGE = 4096  # bytes; alignment of host memory that drivers use directly


class PortMemory(Protocol):
    """Memory of a plan's port. The host may use `host` from a `fetch` to the next `send`."""

    host: np.ndarray
    location: BufferLocation  # for kernels

    def send(self, queue: cl.Queue) -> cl.Event | None:
        """Submit what makes the host's writes visible to kernels; None if nothing is needed."""

    def fetch(self, queue: cl.Queue) -> cl.Event | None:
        """Submit what makes the kernels' writes visible to the host; None if nothing is needed."""


class PinnedMemory:
    """Host memory of the driver that the device accesses directly. It stays mapped as long as this
    object or an array of it exists.
    """

    def __init__(self, context: cl.Context, queue: cl.Queue, size: int) -> None:
        self.buffer, self._queue = cl.Buffer(context, size, host=True), queue
        self._mapped = queue.map(self.buffer, size)
        where = (ctypes.addressof(self._mapped), False)
        self.__array_interface__ = {"shape": (size,), "typestr": "|u1", "data": where, "version": 3}

    def __del__(self) -> None:
        if hasattr(self, "_mapped"):
            with suppress(cl.Error):
                self._queue.unmap(self.buffer, self._mapped)
                self._queue.flush()


class SharedMemory:
    """Memory that host and kernels can access at all times; kernels may use its address."""

    def __init__(self, context: cl.Context, queue: cl.Queue, port: Port, by_address: bool) -> None:
        pinned = PinnedMemory(context, queue, padded(port.type.bytes))
        self.host = shaped(np.asarray(pinned), port)
        self.location = (
            BufferLocation(None, self.host.ctypes.data)
            if by_address
            else BufferLocation(pinned.buffer)
        )

    def send(self, queue: cl.Queue) -> cl.Event | None:
        return None

    fetch = send


class CopiedMemory:
    """A device buffer and host memory, with copies between the two."""

    def __init__(
        self, buffer: cl.Buffer, memory: np.ndarray, port: Port, directions: tuple[bool, bool]
    ) -> None:
        """`memory` is host memory; `directions` is whether the port is an input, and an output."""
        self._buffer, (self._goes_in, self._comes_out) = buffer, directions
        self.host, self.location = shaped(memory, port), BufferLocation(buffer)

    def send(self, queue: cl.Queue) -> cl.Event | None:
        needed = self._goes_in and self.host.size
        return queue.begin_write(self._buffer, self.host) if needed else None

    def fetch(self, queue: cl.Queue) -> cl.Event | None:
        needed = self._comes_out and self.host.size
        return queue.begin_read(self._buffer, self.host) if needed else None


class MappedMemory:
    """Host memory that the driver uses directly, passed back and forth by mapping.

    A GPU that shares the host's memory copies nothing; other drivers copy as needed.
    """

    def __init__(self, context: cl.Context, queue: cl.Queue, port: Port) -> None:
        size = -(-max(1, port.type.bytes) // PAGE) * PAGE
        memory = np.empty(size + PAGE, np.uint8)
        start = -memory.ctypes.data % PAGE
        self._memory = memory[start : start + size]
        self._buffer = cl.Buffer.at(context, self._memory)
        self._queue, self._mapped = queue, queue.map(self._buffer, size)
        self.host, self.location = shaped(self._memory, port), BufferLocation(self._buffer)

    def send(self, queue: cl.Queue) -> cl.Event | None:
        queue.unmap(self._buffer, self._mapped)
        return None

    def fetch(self, queue: cl.Queue) -> cl.Event | None:
        self._mapped = queue.map(self._buffer, self._memory.nbytes, wait=False)
        return queue.mark()

    def __del__(self) -> None:
        if hasattr(self, "_mapped"):
            with suppress(cl.Error):
                self._queue.unmap(self._buffer, self._mapped)
                self._queue.finish()  # the memory is freed soon
            self._buffer.release()


def shaped(memory: np.ndarray, port: Port) -> np.ndarray:
    """Return the beginning of some bytes as the array of a port."""
    return memory[: port.type.bytes].view(port.type.dtype.numpy).reshape(port.type.shape)

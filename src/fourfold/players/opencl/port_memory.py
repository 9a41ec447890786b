"""Memory of what goes in and out of one run: what the host sees of it, and what kernels see."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from typing import Protocol

import numpy as np

from fourfold.plan import Port, padded
from fourfold.players.opencl import binding as cl
from fourfold.players.opencl.arguments import Place

PAGE = 4096  # bytes at which memory begins that drivers take as it is


class PortMemory(Protocol):
    """What carries a port of a plan. The host may use `host` from a `fetch` to the next `send`."""

    host: np.ndarray
    place: Place  # where kernels find it

    def send(self, queue: cl.Queue) -> cl.Event | None:
        """Put in what lets kernels see what the host wrote; None where there is nothing to do."""

    def fetch(self, queue: cl.Queue) -> cl.Event | None:
        """Put in what lets the host see what kernels wrote; None where there is nothing to do."""


class PinnedMemory:
    """Host memory of the driver's, which the device reaches by itself. It stays mapped for as long
    as somebody holds it, or an array of it.
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
    """Memory that host and kernels see at all times; by its address where kernels know that."""

    def __init__(self, context: cl.Context, queue: cl.Queue, port: Port, by_address: bool) -> None:
        pinned = PinnedMemory(context, queue, padded(port.type.bytes))
        self.host = shaped(np.asarray(pinned), port)
        self.place = Place(None, self.host.ctypes.data) if by_address else Place(pinned.buffer)

    def send(self, queue: cl.Queue) -> cl.Event | None:
        return None

    fetch = send


class CopiedMemory:
    """A buffer of the device and host memory beside it, with copies between the two."""

    def __init__(
        self, buffer: cl.Buffer, memory: np.ndarray, port: Port, ways: tuple[bool, bool]
    ) -> None:
        """`memory` is the host's, `ways` whether it goes in, and whether it comes out."""
        self._buffer, (self._goes_in, self._comes_out) = buffer, ways
        self.host, self.place = shaped(memory, port), Place(buffer)

    def send(self, queue: cl.Queue) -> cl.Event | None:
        needed = self._goes_in and self.host.size
        return queue.begin_write(self._buffer, self.host) if needed else None

    def fetch(self, queue: cl.Queue) -> cl.Event | None:
        needed = self._comes_out and self.host.size
        return queue.begin_read(self._buffer, self.host) if needed else None


class MappedMemory:
    """Memory of the host that the driver takes as it is, and that is handed to and fro. A GPU that
    shares the host's memory copies nothing; any other driver does what it must.
    """

    def __init__(self, context: cl.Context, queue: cl.Queue, port: Port) -> None:
        size = -(-max(1, port.type.bytes) // PAGE) * PAGE
        memory = np.empty(size + PAGE, np.uint8)
        start = -memory.ctypes.data % PAGE
        self._memory = memory[start : start + size]
        self._buffer = cl.Buffer.at(context, self._memory)
        self._queue, self._mapped = queue, queue.map(self._buffer, size)
        self.host, self.place = shaped(self._memory, port), Place(self._buffer)

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
                self._queue.finish()  # the memory is gone soon
            self._buffer.release()


def shaped(memory: np.ndarray, port: Port) -> np.ndarray:
    """The beginning of some bytes as the array of a port."""
    return memory[: port.type.bytes].view(port.type.dtype.numpy).reshape(port.type.shape)

"""Command queues, and events by which one command waits for another."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from ctypes import byref, c_size_t, c_uint64, c_void_p
from typing import Any

import numpy as np

from fourfold.backends.opencl.binding.calls import (
    Error,
    call,
    check_process,
    info,
    make,
    quick_library,
)
from fourfold.backends.opencl.binding.objects import (
    Buffer,
    Context,
    Handle,
    Kernel,
    address_of,
)

_PROFILING, _QUEUED, _STARTED, _ENDED = 1 << 1, 0x1280, 0x1282, 0x1283
_STATUS, _COMPLETE = 0x11D3, 0
_MAP_BOTH = 0b11

Memory = Any  # bytes of a mapped buffer, as a ctypes array
Call = tuple[Any, ...]  # arguments of clEnqueueNDRangeKernel


class Event(Handle):
    """Event of a queue's command."""

    _kind = "Event"

    @property
    def done(self) -> bool:
        """Return True if the command has ended; raises an Error if it failed."""
        data = info("clGetEventInfo", self.pointer, _STATUS)
        status = int.from_bytes(data, "little", signed=True)
        if status < 0:
            raise Error("a command", status)
        return status == _COMPLETE

    def wait(self) -> None:
        """Wait until the command has ended."""
        call("clWaitForEvents", 1, byref(self.handle))

    @property
    def handle(self) -> c_void_p:
        assert self.pointer is not None
        return self.pointer

    @property
    def seconds(self) -> float:
        """Return the seconds the command took, by the device's clock; only for profiling queues."""
        return self.seconds_from(self)

    def seconds_from(self, first: Event) -> float:
        """Return the seconds from the start of another launch to the end of this one."""
        return (self._time(_ENDED) - first._time(_STARTED)) * 1e-9

    @property
    def queued(self) -> int:
        """Time when the command was submitted, in nanoseconds of the device's clock."""
        return self._time(_QUEUED)

    @property
    def span(self) -> tuple[int, int]:
        """Times when the command started and ended, in nanoseconds of the device's clock."""
        return self._time(_STARTED), self._time(_ENDED)

    def _time(self, what: int) -> int:
        data = info("clGetEventProfilingInfo", self.pointer, what)
        return int.from_bytes(data, "little")


class Queue(Handle):
    """Commands that run one after the other."""

    _kind = "CommandQueue"

    def __init__(self, context: Context, profiling: bool = False) -> None:
        flags = c_uint64(_PROFILING if profiling else 0)
        own = context.device.pointer
        super().__init__(make("clCreateCommandQueue", context.pointer, own, flags))
        self._launch = quick_library()["clEnqueueNDRangeKernel"]

    @staticmethod
    def of(pointer: int) -> Queue:
        """Add a reference to a queue of the caller."""
        queue = Queue.__new__(Queue)
        call("clRetainCommandQueue", c_void_p(pointer))
        Handle.__init__(queue, c_void_p(pointer))
        queue._launch = quick_library()["clEnqueueNDRangeKernel"]
        return queue

    def call(self, kernel: Kernel, grid: Sequence[int], local: Sequence[int]) -> Call:
        """Return the arguments of a launch on this queue, valid as long as both objects exist."""
        sizes = c_size_t * len(grid)
        ranges = (None, sizes(*grid), sizes(*local))
        return (self.pointer, kernel.pointer, len(grid), *ranges, 0, None, None)

    def replay(self, calls: Iterable[Call]) -> None:
        """Submit launches without waiting."""
        check_process("clEnqueueNDRangeKernel")
        launch = self._launch
        for one in calls:
            if status := launch(*one):
                raise Error("clEnqueueNDRangeKernel", status)

    def timed(self, one: Call) -> Event:
        """Submit a launch to this queue, even if it was created for another, and
        return its event.
        """
        event = c_void_p()
        self.replay([(self.pointer, *one[1:-1], byref(event))])
        return Event(event)

    def mark(self) -> Event:
        """Return an event that is set when everything submitted before has ended."""
        event = c_void_p()
        call("clEnqueueMarkerWithWaitList", self.pointer, 0, None, byref(event))
        return Event(event)

    def write(self, buffer: Buffer, array: np.ndarray, offset: int = 0, wait: bool = True) -> None:
        """Copy a contiguous array into a buffer at an offset in bytes."""
        self._move("clEnqueueWriteBuffer", buffer, array, offset, wait)

    def read(self, buffer: Buffer, array: np.ndarray, offset: int = 0, wait: bool = True) -> None:
        """Copy from a buffer at an offset in bytes into an array."""
        self._move("clEnqueueReadBuffer", buffer, array, offset, wait)

    def begin_write(self, buffer: Buffer, array: np.ndarray) -> Event:
        """Submit a copy of an array to the start of a buffer; the event is set when it is done."""
        event = c_void_p()
        self._move("clEnqueueWriteBuffer", buffer, array, 0, False, byref(event))
        return Event(event)

    def begin_read(self, buffer: Buffer, array: np.ndarray) -> Event:
        """Submit a copy of the start of a buffer to an array."""
        event = c_void_p()
        self._move("clEnqueueReadBuffer", buffer, array, 0, False, byref(event))
        return Event(event)

    def _move(
        self,
        name: str,
        buffer: Buffer,
        array: np.ndarray,
        offset: int,
        wait: bool,
        event: Any = None,
    ) -> None:
        if not array.flags.c_contiguous:
            raise ValueError("only contiguous arrays can be copied")
        call(
            name,
            self.pointer,
            buffer.pointer,
            int(wait),
            c_size_t(offset),
            c_size_t(array.nbytes),
            address_of(array),
            0,
            None,
            event,
        )

    def copy(self, source: Buffer, target: Buffer, size: int, start: int = 0, to: int = 0) -> None:
        """Copy some bytes from one buffer into another, on the device."""
        call(
            "clEnqueueCopyBuffer",
            self.pointer,
            source.pointer,
            target.pointer,
            c_size_t(start),
            c_size_t(to),
            c_size_t(size),
            0,
            None,
            None,
        )

    def copy_image(self, image: Buffer, buffer: Buffer, size: tuple[int, int]) -> None:
        """Copy an image of this width and height in texels to the start of a buffer."""
        origin, region = (c_size_t * 3)(), (c_size_t * 3)(*size, 1)
        call(
            "clEnqueueCopyImageToBuffer",
            self.pointer,
            image.pointer,
            buffer.pointer,
            origin,
            region,
            c_size_t(0),
            0,
            None,
            None,
        )

    def copy_to_image(self, buffer: Buffer, image: Buffer, size: tuple[int, int]) -> None:
        """Copy the start of a buffer to an image of this width and height in texels."""
        origin, region = (c_size_t * 3)(), (c_size_t * 3)(*size, 1)
        call(
            "clEnqueueCopyBufferToImage",
            self.pointer,
            buffer.pointer,
            image.pointer,
            c_size_t(0),
            origin,
            region,
            0,
            None,
            None,
        )

    def fill(self, buffer: Buffer, pattern: bytes, offset: int, size: int) -> None:
        """Fill a part of a buffer with a repeated pattern."""
        call(
            "clEnqueueFillBuffer",
            self.pointer,
            buffer.pointer,
            pattern,
            c_size_t(len(pattern)),
            c_size_t(offset),
            c_size_t(size),
            0,
            None,
            None,
        )

    def map(self, buffer: Buffer, size: int, wait: bool = True) -> Memory:
        """Map the buffer's memory as bytes, for reading and writing until `unmap`."""
        address = make(
            "clEnqueueMapBuffer",
            self.pointer,
            buffer.pointer,
            int(wait),
            c_uint64(_MAP_BOTH),
            c_size_t(0),
            c_size_t(size),
            0,
            None,
            None,
        )
        return (ctypes.c_ubyte * size).from_address(address.value or 0)

    def unmap(self, buffer: Buffer, memory: Memory) -> None:
        address = c_void_p(ctypes.addressof(memory))
        call("clEnqueueUnmapMemObject", self.pointer, buffer.pointer, address, 0, None, None)

    def flush(self) -> None:
        """Let the device start with submitted work."""
        call("clFlush", self.pointer)

    def finish(self) -> None:
        """Wait for all submitted work."""
        call("clFinish", self.pointer)

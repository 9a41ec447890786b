"""Inputs and outputs in device memory of the caller, which kernels access directly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from fourfold.backends.opencl import binding as cl
from fourfold.backends.opencl.arguments import BufferLocation, PortArguments, counts_bytes
from fourfold.backends.opencl.device_memory import OpenCLMemory
from fourfold.backends.port_buffers import movable_buffers
from fourfold.backends.protocol import overwrites_input
from fourfold.device import DeviceInfo
from fourfold.plan import Plan, Port, padded

VECTOR = 16  # bytes that kernels load at once, at a multiple of this address


class BoundMemory:
    """Tracks which ports are in memory of the caller.

    Data that kernels cannot use directly is copied on the device: an image, a buffer that is too
    short, or an output that overlaps an input. Ports that share a buffer, and variables of the
    model, are not moved: see `stays`.
    """

    def __init__(self, context: cl.Context, queue: cl.Queue, info: DeviceInfo, plan: Plan) -> None:
        self._context, self._queue, self._info, self._plan = context, queue, info, plan
        self._movable = movable_buffers(plan)
        self._in_bytes = counts_bytes(plan)
        self._moved: set[int] = set()
        self._between: dict[int, cl.Buffer] = {}  # device buffers of ports that are copied
        self._final_copies: list[tuple[Port, OpenCLMemory]] = []  # copies at the end of a run

    def follow(self, arguments: PortArguments, locations: Mapping[int, BufferLocation]) -> None:
        """Use these arguments to set the locations of ports; `places` are their
        default locations.
        """
        self._arguments, self._locations = arguments, locations

    def stays(self, port: Port) -> bool:
        """Return True if a port cannot be moved: its data goes through the host."""
        return port.buffer not in self._movable

    def begin(self, arrays: Sequence[Any], into: Sequence[Any] | None) -> None:
        """Before a run: set the locations of ports, and copy data that kernels cannot
        use directly.
        """
        moved, self._moved, self._final_copies = self._moved, set(), []
        sources: list[tuple[Port, OpenCLMemory]] = []
        for port, given in zip(self._plan.inputs, arrays, strict=True):
            if isinstance(given, OpenCLMemory) and not self.stays(port):
                self._move(port, self._location(port, given), partial(self._copy_in, port, given))
                sources.append((port, given))
        for port, target in zip(self._plan.outputs, into or (), strict=False):
            if isinstance(target, OpenCLMemory) and not self.stays(port):
                location = (
                    None
                    if overwrites_input(port, target, sources)
                    else self._location(port, target)
                )
                self._move(port, location, partial(self._final_copies.append, (port, target)))
        for number in moved - self._moved:
            self._arguments.move(number, self._locations[number])

    def _move(self, port: Port, location: BufferLocation | None, copy: Callable[[], None]) -> None:
        """Move a port to a location; without one, use a buffer in between and call `copy`."""
        if location is None:
            if port.buffer not in self._between:
                self._between[port.buffer] = cl.Buffer(self._context, padded(port.type.bytes))
            location = BufferLocation(self._between[port.buffer])
            copy()
        self._arguments.move(port.buffer, location)
        self._moved.add(port.buffer)

    def _location(self, port: Port, memory: OpenCLMemory) -> BufferLocation | None:
        """Return the location of memory that kernels can use; None if they cannot."""
        start = memory.start
        if memory.texels is not None or memory.size < padded(port.type.bytes) or start % VECTOR:
            return None
        if start == 0 or self._in_bytes:
            return BufferLocation(memory.buffer, start)
        if start % self._info.alignment:
            return None
        return BufferLocation(memory.buffer.part(start, memory.size))

    def _copy_in(self, port: Port, memory: OpenCLMemory) -> None:
        between = self._between[port.buffer]
        if memory.texels is not None:
            self._queue.copy_image(memory.buffer, between, memory.texels)
        elif port.type.bytes:
            self._queue.copy(memory.buffer, between, port.type.bytes, start=memory.start)

    def end(self) -> bool:
        """After the launches: copy outputs that kernels could not write in place; returns whether
        anything was submitted.
        """
        for port, memory in self._final_copies:
            between = self._between[port.buffer]
            if memory.texels is not None:
                self._queue.copy_to_image(between, memory.buffer, memory.texels)
            elif memory.host is not None:  # mapped memory must not be written by a command
                self._queue.read(between, memory.host[: port.type.bytes], wait=False)
            elif port.type.bytes:
                self._queue.copy(between, memory.buffer, port.type.bytes, to=memory.start)
        return bool(self._final_copies)

"""Inputs and outputs in memory of the device that a caller has: kernels use it where it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from fourfold.device import DeviceInfo
from fourfold.plan import Plan, Port, padded
from fourfold.players.opencl import binding as cl
from fourfold.players.opencl.arguments import Place, PortArguments, counts_bytes
from fourfold.players.opencl.device_memory import OpenCLMemory
from fourfold.players.port_buffers import movable_buffers
from fourfold.players.protocol import is_read

VECTOR = 16  # bytes that kernels read at once, at an address that is a multiple of it


class BoundMemory:
    """Which ports are in a caller's memory at the moment. What kernels cannot use where it is, an
    image, a buffer that ends too early, or an output where an input is, is copied on the device.
    Ports that are one and the same buffer, and variables of the model, stay where they are: see
    `stays`.
    """

    def __init__(self, context: cl.Context, queue: cl.Queue, info: DeviceInfo, plan: Plan) -> None:
        self._context, self._queue, self._info, self._plan = context, queue, info, plan
        self._movable = movable_buffers(plan)
        self._in_bytes = counts_bytes(plan)
        self._moved: set[int] = set()
        self._between: dict[int, cl.Buffer] = {}  # where ports are that are copied
        self._ends: list[tuple[Port, OpenCLMemory]] = []  # what is copied when a run ends

    def follow(self, arguments: PortArguments, places: Mapping[int, Place]) -> None:
        """Let these arguments tell kernels where ports are; `places` is where they are else."""
        self._arguments, self._places = arguments, places

    def stays(self, port: Port) -> bool:
        """Whether a port cannot be anywhere else: its numbers go through the host."""
        return port.buffer not in self._movable

    def begin(self, arrays: Sequence[Any], into: Sequence[Any] | None) -> None:
        """Before a run: tell kernels where ports are, and copy what they cannot use there."""
        moved, self._moved, self._ends = self._moved, set(), []
        sources: list[tuple[Port, OpenCLMemory]] = []
        for port, given in zip(self._plan.inputs, arrays, strict=True):
            if isinstance(given, OpenCLMemory) and not self.stays(port):
                self._move(port, self._place(port, given), partial(self._copy_in, port, given))
                sources.append((port, given))
        for port, target in zip(self._plan.outputs, into or (), strict=False):
            if isinstance(target, OpenCLMemory) and not self.stays(port):
                place = None if is_read(port, target, sources) else self._place(port, target)
                self._move(port, place, partial(self._ends.append, (port, target)))
        for number in moved - self._moved:
            self._arguments.move(number, self._places[number])

    def _move(self, port: Port, place: Place | None, copy: Callable[[], None]) -> None:
        """Let a port be at a place; without one it is between, where to and from it is a `copy`."""
        if place is None:
            if port.buffer not in self._between:
                self._between[port.buffer] = cl.Buffer(self._context, padded(port.type.bytes))
            place = Place(self._between[port.buffer])
            copy()
        self._arguments.move(port.buffer, place)
        self._moved.add(port.buffer)

    def _place(self, port: Port, memory: OpenCLMemory) -> Place | None:
        """The memory as kernels can use it; None where they cannot."""
        start = memory.start
        if memory.texels is not None or memory.size < padded(port.type.bytes) or start % VECTOR:
            return None
        if start == 0 or self._in_bytes:
            return Place(memory.buffer, start)
        if start % self._info.alignment:
            return None
        return Place(memory.buffer.part(start, memory.size))

    def _copy_in(self, port: Port, memory: OpenCLMemory) -> None:
        between = self._between[port.buffer]
        if memory.texels is not None:
            self._queue.copy_image(memory.buffer, between, memory.texels)
        elif port.type.bytes:
            self._queue.copy(memory.buffer, between, port.type.bytes, start=memory.start)

    def end(self) -> bool:
        """After the launches: copy what kernels could not write where it belongs; says whether
        anything was put in.
        """
        for port, memory in self._ends:
            between = self._between[port.buffer]
            if memory.texels is not None:
                self._queue.copy_to_image(between, memory.buffer, memory.texels)
            elif memory.host is not None:  # it is mapped, and no command may write there
                self._queue.read(between, memory.host[: port.type.bytes], wait=False)
            elif port.type.bytes:
                self._queue.copy(between, memory.buffer, port.type.bytes, to=memory.start)
        return bool(self._ends)

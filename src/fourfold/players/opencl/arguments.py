"""Kernel arguments, set once; those of inputs and outputs can be changed between runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fourfold.plan import BufferUse, Launch, Plan
from fourfold.players.opencl import binding as cl
from fourfold.players.opencl.images import Images
from fourfold.players.port_buffers import port_buffers, used_buffers


class BufferLocation(NamedTuple):
    """Location of a plan's buffer: an offset in bytes from the start of the driver's memory, or a
    host address if `memory` is None.
    """

    memory: cl.Buffer | None
    start: int = 0


class PortArguments:
    """The arguments that point to inputs and outputs.

    Only kernels that count pointer offsets in bytes accept a location that does not start at the
    beginning of the driver's memory.
    """

    def __init__(self) -> None:
        self._uses: dict[int, list[tuple[cl.Kernel, int, int]]] = {}
        self._locations: dict[int, BufferLocation] = {}

    def add(
        self, buffer: int, location: BufferLocation, kernel: cl.Kernel, position: int, offset: int
    ) -> None:
        """Register two consecutive arguments of a kernel that point to a buffer."""
        self._uses.setdefault(buffer, []).append((kernel, position, offset))
        self._locations[buffer] = location
        _set(kernel, position, offset, location)

    def move(self, buffer: int, location: BufferLocation) -> None:
        """Change the location of a buffer in all kernels."""
        if self._locations.get(buffer, location) == location:
            return
        self._locations[buffer] = location
        for use in self._uses[buffer]:
            _set(*use, location)


class BoundKernels(NamedTuple):
    """A kernel object for each launch of a plan, and the arguments that can be changed."""

    kernels: list[cl.Kernel]
    ports: PortArguments


class KernelBinder:
    """Creates kernel objects for a plan's launches, with all arguments set."""

    def __init__(
        self, program: cl.Program, plan: Plan, images: Images, buffers: Sequence[cl.Buffer]
    ) -> None:
        self._program, self._plan, self._images, self._buffers = program, plan, images, buffers
        self._ports = port_buffers(plan)

    def bind(
        self, locations: Mapping[int, BufferLocation], others: Sequence[cl.Kernel] | None = None
    ) -> BoundKernels:
        """Create a kernel object for each launch. `places` has the locations of ports. Launches
        that use no port share the object in `others`.
        """
        ports, kernels = PortArguments(), []
        for number, launch in enumerate(self._plan.launches):
            if others is not None and not self._ports & used_buffers(launch):
                kernels.append(others[number])
            else:
                kernels.append(self._kernel(launch, locations, ports))
        return BoundKernels(kernels, ports)

    def _kernel(
        self, launch: Launch, locations: Mapping[int, BufferLocation], ports: PortArguments
    ) -> cl.Kernel:
        kernel, position = cl.Kernel(self._program, launch.entry), 0
        for argument in launch.arguments:
            if not isinstance(argument, BufferUse):
                kernel.set_int(position, argument)
                position += 1
                continue
            if argument.buffer in self._ports:
                location = locations[argument.buffer]
                ports.add(argument.buffer, location, kernel, position, argument.offset)
            else:
                self._set_pointer(kernel, position, argument)
            position += 2
        return kernel

    def _set_pointer(self, kernel: cl.Kernel, position: int, use: BufferUse) -> None:
        """Set a pointer, passed as a buffer or an image of one, and an offset from its start."""
        buffer = self._buffers[use.buffer]
        if use.image is None:
            _set(kernel, position, use.offset, BufferLocation(buffer))
            return
        image, first = self._images.of(use, buffer, self._plan.buffers[use.buffer].bytes)
        kernel.set_buffer(position, image)
        kernel.set_int(position + 1, first)


def counts_bytes(plan: Plan) -> bool:
    """Return True if pointer offsets are counted in bytes, as only persistent kernels do."""
    return all(launch.stages > 1 for launch in plan.launches)


def _set(kernel: cl.Kernel, position: int, offset: int, location: BufferLocation) -> None:
    """Set a pointer. Host memory is passed as a null pointer with its address as the offset."""
    kernel.set_buffer(position, location.memory)
    kernel.set_long(position + 1, location.start + offset)

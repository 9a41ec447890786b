"""Arguments of kernels, set once: those for what goes in and out can be moved between runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fourfold.plan import BufferUse, Launch, Plan
from fourfold.players.opencl import binding as cl
from fourfold.players.opencl.images import Images
from fourfold.players.port_buffers import port_buffers, used_buffers


class Place(NamedTuple):
    """Where a buffer of a plan is: so many bytes behind the start of the driver's memory, or, where
    that is None, at an address of the host's.
    """

    memory: cl.Buffer | None
    start: int = 0


class PortArguments:
    """The arguments that say where what goes in and out is. Only kernels that count the steps of
    their pointers in bytes can be given a `Place` that does not begin with the driver's memory.
    """

    def __init__(self) -> None:
        self._uses: dict[int, list[tuple[cl.Kernel, int, int]]] = {}
        self._places: dict[int, Place] = {}

    def add(self, buffer: int, place: Place, kernel: cl.Kernel, position: int, offset: int) -> None:
        """Let two arguments of a kernel, from a position on, follow a buffer."""
        self._uses.setdefault(buffer, []).append((kernel, position, offset))
        self._places[buffer] = place
        _set(kernel, position, offset, place)

    def move(self, buffer: int, place: Place) -> None:
        """Tell kernels where a buffer is from now on."""
        if self._places.get(buffer, place) == place:
            return
        self._places[buffer] = place
        for use in self._uses[buffer]:
            _set(*use, place)


class BoundKernels(NamedTuple):
    """A kernel object for each launch of a plan, and those arguments that can be moved."""

    kernels: list[cl.Kernel]
    ports: PortArguments


class KernelBinder:
    """Makes kernel objects of a plan's launches, each with every argument set."""

    def __init__(
        self, program: cl.Program, plan: Plan, images: Images, buffers: Sequence[cl.Buffer]
    ) -> None:
        self._program, self._plan, self._images, self._buffers = program, plan, images, buffers
        self._ports = port_buffers(plan)

    def bind(
        self, places: Mapping[int, Place], others: Sequence[cl.Kernel] | None = None
    ) -> BoundKernels:
        """An object of its own for each launch. `places` says where ports are; a launch that sees
        none of them can have the object that `others` have for it.
        """
        ports, kernels = PortArguments(), []
        for number, launch in enumerate(self._plan.launches):
            if others is not None and not self._ports & used_buffers(launch):
                kernels.append(others[number])
            else:
                kernels.append(self._kernel(launch, places, ports))
        return BoundKernels(kernels, ports)

    def _kernel(
        self, launch: Launch, places: Mapping[int, Place], ports: PortArguments
    ) -> cl.Kernel:
        kernel, position = cl.Kernel(self._program, launch.entry), 0
        for argument in launch.arguments:
            if not isinstance(argument, BufferUse):
                kernel.set_int(position, argument)
                position += 1
                continue
            if argument.buffer in self._ports:
                place = places[argument.buffer]
                ports.add(argument.buffer, place, kernel, position, argument.offset)
            else:
                self._set_pointer(kernel, position, argument)
            position += 2
        return kernel

    def _set_pointer(self, kernel: cl.Kernel, position: int, use: BufferUse) -> None:
        """A pointer comes as a buffer, or as an image of one, and a step from its start."""
        buffer = self._buffers[use.buffer]
        if use.image is None:
            _set(kernel, position, use.offset, Place(buffer))
            return
        image, first = self._images.of(use, buffer, self._plan.buffers[use.buffer].bytes)
        kernel.set_buffer(position, image)
        kernel.set_int(position + 1, first)


def counts_bytes(plan: Plan) -> bool:
    """Whether the steps of pointers are counted in bytes: only a persistent kernel does so."""
    return all(launch.stages > 1 for launch in plan.launches)


def _set(kernel: cl.Kernel, position: int, offset: int, place: Place) -> None:
    """Host memory is no buffer to the driver, but the step from nowhere to its address leads
    there.
    """
    kernel.set_buffer(position, place.memory)
    kernel.set_long(position + 1, place.start + offset)

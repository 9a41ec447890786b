"""Kernel arguments (buffers, images, sizes), set once except for those of inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fourfold.backends.opencl import binding as cl
from fourfold.backends.port_buffers import port_buffers, used_buffers
from fourfold.device import DeviceInfo
from fourfold.plan import BufferUse, Launch, Plan
from fourfold.types import DType


class Images:
    """Images of buffers on one device: each is created once, as long as possible."""

    def __init__(self, context: cl.Context, info: DeviceInfo) -> None:
        self._context, self._info = context, info
        self._images: dict[tuple[int, int, DType], cl.Image] = {}

    def of(self, use: BufferUse, buffer: cl.Buffer, size: int) -> tuple[cl.Image, int]:
        """Return an image that covers what a kernel reads, and the number of texels to skip."""
        assert use.image is not None
        dtype, texel = use.image.dtype, 4 * use.image.dtype.size
        first, limit, start = use.offset // 4, self._info.image_texels, 0
        if use.end_of_image > limit:
            start = first * texel // self._info.alignment * self._info.alignment
        key = (use.buffer, start, dtype)
        if key not in self._images:
            count = min(limit, (size - start) // texel)
            part = buffer.part(start, count * texel) if start else buffer
            self._images[key] = cl.Image(self._context, part, count, half=dtype is DType.F16)
        return self._images[key], first - start // texel

    def close(self) -> None:
        for image in self._images.values():
            image.release()


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

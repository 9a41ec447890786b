"""Binds kernels to their launch arguments: the memory that they access, and its extent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from fourfold.codegen.context import Packed, Scratch
from fourfold.codegen.kernel import BufferArgument, Kernel
from fourfold.codegen.location import Location, storage_elements
from fourfold.compiler.lower.constants import Constants
from fourfold.compiler.lower.kernels import Built, constant_locations
from fourfold.device import DeviceInfo
from fourfold.errors import Refusal, UnsupportedError
from fourfold.graph import Graph
from fourfold.plan import Argument, BufferUse, Launch
from fourfold.types import TensorType

MAX_SIZE = 2**31 - 1


@dataclass(frozen=True)
class Allocation:
    """For every root: the number of its buffer and its first byte there.

    If one arena would exceed the device's allocation limit, there are `further` ones, with these
    sizes in bytes.
    """

    buffers: dict[str, tuple[int, int]]
    arena: int
    further: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Bound:
    """A kernel and its launch. The entry is the kernel's title until the text is written."""

    kernel: Kernel
    launch: Launch

    @property
    def images(self) -> frozenset[str]:
        """The pointers that are read as images."""
        pairs = zip(self.kernel.buffers, self.launch.arguments, strict=False)
        return frozenset(
            argument.pointer.name
            for argument, use in pairs
            if isinstance(use, BufferUse) and use.image is not None
        )

    @property
    def buffers(self) -> tuple[int, ...]:
        """For each pointer, the number of the first pointer into the same buffer."""
        uses = [use.buffer for use in self.launch.arguments if isinstance(use, BufferUse)]
        return tuple(map(uses.index, uses))


def bind_kernel(
    item: Built, device: DeviceInfo, allocation: Allocation, constants: Constants
) -> Bound:
    """Bind the kernel of a node to its arguments; new constants get an offset."""
    kernel = item.kernel
    _check_sizes(item)
    uses = (_use_of(argument, device, allocation, constants) for argument in kernel.buffers)
    arguments: tuple[Argument, ...] = (*uses, *kernel.sizes.values())
    return bound_to(kernel, arguments, str(item.node))


def _check_sizes(item: Built) -> None:
    """Raise if a size exceeds 32 bits, because kernels would compute with a wrong number."""
    largest = max([prod(item.kernel.grid), *item.kernel.sizes.values()])
    if largest > MAX_SIZE:
        reason = f"its size {largest} exceeds the 32-bit limit of kernels, {MAX_SIZE}"
        refusals = (Refusal(item.node.name, item.node.op, reason),)
        fix = "use smaller inputs, or run the model on the CPU with placement='cpu'"
        raise UnsupportedError("a layer is too large for the device", refusals, fix)


def bound_to(kernel: Kernel, arguments: tuple[Argument, ...], what: str) -> Bound:
    """Bind a kernel to these arguments; `what` describes what it does."""
    title = kernel.title
    return Bound(kernel, Launch(title, arguments, kernel.grid, kernel.local, title, what))


def rebind(bound: Bound, allocation: Allocation) -> Bound:
    """Bind a kernel to the memory of another allocation."""
    arguments: list[Argument] = [*bound.launch.arguments]
    for number, argument in enumerate(bound.kernel.buffers):
        use = _value_use(argument, allocation)
        if use is not None:
            arguments[number] = use
    return replace(bound, launch=bound.launch._replace(arguments=tuple(arguments)))


def _use_of(
    argument: BufferArgument, device: DeviceInfo, allocation: Allocation, constants: Constants
) -> BufferUse:
    memory, size = argument.memory, argument.pointer.dtype.size
    if isinstance(memory, Packed):
        buffer, start = constants.place(constants.offset(memory.array, memory.layout))
        image = memory.image and fits_image(device, memory.array, start)
        shape = (memory.array.size // 4, 4)
        type_ = TensorType(argument.pointer.dtype, shape) if image else None
        return BufferUse(buffer, start // size, type_)
    use = _value_use(argument, allocation)
    if use is not None:
        return use
    assert isinstance(memory, Location)
    buffer, start = constants.place(constants.place_offset(memory))
    return BufferUse(buffer, start // memory.dtype.size + memory.offset)


def _value_use(argument: BufferArgument, allocation: Allocation) -> BufferUse | None:
    """Return the use of a value or of scratch memory as allocated; None for constants."""
    memory = argument.memory
    if not isinstance(memory, Location | Scratch) or memory.root not in allocation.buffers:
        return None
    buffer, start = allocation.buffers[memory.root]
    if isinstance(memory, Scratch):
        return BufferUse(buffer, start // argument.pointer.dtype.size)
    return BufferUse(buffer, start // memory.dtype.size + memory.offset)


def fits_image(device: DeviceInfo, array: np.ndarray, start: int) -> bool:
    """Return whether a constant at byte `start` of the block can be read as an image.

    The image covers the block up to the constant's end, or begins near its start if the device
    supports image windows.
    """
    end, near = start + array.nbytes, array.nbytes + device.alignment
    needed = min(end, near) if device.image_windows else end
    return needed <= device.image_texels * 4 * array.dtype.itemsize


def value_bytes(graph: Graph, location: Location, root: str) -> int:
    return storage_elements(location.layout, graph.types[root]) * location.dtype.size


def memory_uses(
    graph: Graph, built: Sequence[Built], locations: Mapping[str, Location]
) -> Iterator[tuple[int, str, int]]:
    """Yield all memory accesses except constants: the kernel's number, the root, and its bytes."""
    for number, item in enumerate(built):
        for argument in item.kernel.buffers:
            memory = argument.memory
            if isinstance(memory, Scratch):
                yield number, memory.root, memory.bytes
            elif isinstance(memory, Location) and memory.root in locations:
                yield number, memory.root, value_bytes(graph, locations[memory.root], memory.root)


def written_apart(built: Iterable[Built]) -> dict[str, set[str]]:
    """Map each root that a kernel writes to the roots that it reads, and vice versa.

    They should be in different buffers. Roots that are both read and written are not separated.
    """
    apart: dict[str, set[str]] = {}
    for item in built:
        read, written = set[str](), set[str]()
        for argument in item.kernel.buffers:
            if isinstance(argument.memory, Location | Scratch):
                roots = written if argument.pointer.writable else read
                roots.add(argument.memory.root)
        for one, others in ((read - written, written), (written, read - written)):
            for root in one if others else ():
                apart.setdefault(root, set()).update(others)
    return apart


def with_extents(
    bound: tuple[Bound, ...], graph: Graph, locations: Mapping[str, Location]
) -> tuple[Bound, ...]:
    """Return the kernels with the extent of each pointer argument set."""
    roots = {**constant_locations(graph), **locations}
    extended = []
    for item in bound:
        arguments: list[Argument] = [*item.launch.arguments]
        for number, argument in enumerate(item.kernel.buffers):
            use = arguments[number]
            assert isinstance(use, BufferUse)
            arguments[number] = use._replace(elements=_elements(argument, graph, roots))
        launch = item.launch._replace(arguments=tuple(arguments))
        extended.append(replace(item, launch=launch))
    return tuple(extended)


def _elements(argument: BufferArgument, graph: Graph, roots: Mapping[str, Location]) -> int | None:
    memory, size = argument.memory, argument.pointer.dtype.size
    if isinstance(memory, Packed):
        return int(memory.array.size)
    if isinstance(memory, Scratch):
        return memory.bytes // size
    if isinstance(memory, Location) and memory.root in roots:
        return value_bytes(graph, roots[memory.root], memory.root) // size - memory.offset
    return None

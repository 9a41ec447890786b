"""From kernels to launches: every text once, constants in one block, arguments resolved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.graph import Graph
from fourfold.kernel.context import KernelOptions, Packed, Scratch
from fourfold.kernel.kernel import BufferArgument, Kernel
from fourfold.kernel.location import Location, storage_elements
from fourfold.kernel.opencl.functions import functions_of
from fourfold.kernel.opencl.prelude import HALVES, ROUND, build_options
from fourfold.kernel.opencl.renderer import preludes, render
from fourfold.lower.kernels import Built, constant_storage
from fourfold.plan import CONSTANT_ALIGNMENT, BufferUse, Launch
from fourfold.types import DType, TensorType

ARENA, CONSTANTS = 0, 1
_ANY = "entry_of_any_name"  # stands in a text until it is known to be a new one


@dataclass(frozen=True)
class Allocation:
    """For every root: its buffer's number and its first byte there."""

    buffers: dict[str, tuple[int, int]]
    arena: int


@dataclass
class Constants:
    """All constants behind each other in one block; equal ones are kept once."""

    graph: Graph
    pieces: list[np.ndarray] = field(default_factory=list)
    alike: dict[int, list[tuple[int, np.ndarray]]] = field(default_factory=dict)  # by size
    roots: dict[str, int] = field(default_factory=dict)
    end: int = 0

    def offset(self, array: np.ndarray) -> int:
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        alike = self.alike.setdefault(flat.size, [])
        for start, other in alike:
            if _equal(flat, other):
                return start
        start = self.end
        alike.append((start, flat))
        self.pieces.append(flat)
        self.end += -(-flat.size // CONSTANT_ALIGNMENT) * CONSTANT_ALIGNMENT
        return start

    def place_offset(self, place: Location) -> int:
        """The start of a constant of the graph, in the layout that kernels read tensors in."""
        root = place.root
        if root not in self.roots:
            self.roots[root] = self.offset(constant_storage(self.graph.constants[root]))
        return self.roots[root]

    def blob(self) -> np.ndarray:
        block = np.zeros(max(self.end, CONSTANT_ALIGNMENT), np.uint8)
        cursor = 0
        for flat in self.pieces:
            block[cursor : cursor + flat.size] = flat
            cursor += -(-flat.size // CONSTANT_ALIGNMENT) * CONSTANT_ALIGNMENT
        return block


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether bytes are the same. Most differ from the start."""
    few = CONSTANT_ALIGNMENT
    return np.array_equal(a[:few], b[:few]) and np.array_equal(a, b)


class Texts:
    """Every kernel text once, under an entry name made of its title and a number."""

    def __init__(self, device: DeviceInfo, options: KernelOptions) -> None:
        self.device, self.real, self.storage = device, options.real, options.storage
        self.counts_bytes = options.counts_bytes
        self.entries: dict[str, tuple[str, Kernel]] = {}
        self.counts: dict[str, int] = {}

    def entry(self, kernel: Kernel, images: frozenset[str] = frozenset()) -> str:
        text = render(kernel, _ANY, images)
        if text not in self.entries:
            number = self.counts.get(kernel.title, 0)
            self.counts[kernel.title] = number + 1
            self.entries[text] = (f"{kernel.title}_{number}", kernel)
        return self.entries[text][0]

    @property
    def options(self) -> str:
        """How the program is built: in a late language only where its kernels are written so."""
        kernels = (kernel for _, kernel in self.entries.values())
        exchange = any("exchange" in functions_of(kernel) for kernel in kernels)
        return build_options(
            self.device.dot_products if self.counts_bytes else "",
            self.device.subgroups if exchange else "",
        )

    def head(self) -> str:
        """What goes before all kernels."""
        half = self.real == "half"
        pragma = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n" if half else ""
        quick = self.device.matrix_units and self.storage is DType.F16 and not half
        kernels = (kernel for _, kernel in self.entries.values())
        also = (*(HALVES if quick else ()), *(ROUND if self.counts_bytes else ()))
        device = self.device
        return pragma + preludes(kernels, also, device.dot_products, device.subgroups)

    def text(self) -> str:
        named = (text.replace(_ANY, name, 1) for text, (name, _) in self.entries.items())
        return "\n".join([self.head(), *named])


def make_launch(item: Built, texts: Texts, allocation: Allocation, constants: Constants) -> Launch:
    kernel = item.kernel
    uses = {
        argument.pointer.name: _use_of(argument, texts.device, allocation, constants)
        for argument in kernel.buffers
    }
    images = frozenset(name for name, use in uses.items() if use.image is not None)
    return Launch(
        entry=texts.entry(kernel, images),
        arguments=(*uses.values(), *kernel.sizes.values()),
        grid=kernel.grid,
        local=kernel.local,
        title=kernel.title,
        node=str(item.node),
    )


def _use_of(
    argument: BufferArgument, device: DeviceInfo, allocation: Allocation, constants: Constants
) -> BufferUse:
    memory, size = argument.memory, argument.pointer.dtype.size
    if isinstance(memory, Packed):
        start = constants.offset(memory.array)
        image = memory.image and fits_image(device, memory.array, start)
        shape = (memory.array.size // 4, 4)
        type_ = TensorType(argument.pointer.dtype, shape) if image else None
        return BufferUse(CONSTANTS, start // size, type_)
    use = value_use(argument, allocation)
    if use is not None:
        return use
    assert isinstance(memory, Location)
    start = constants.place_offset(memory)
    return BufferUse(CONSTANTS, start // memory.dtype.size + memory.offset)


def value_use(argument: BufferArgument, allocation: Allocation) -> BufferUse | None:
    """The pointer to a value or to scratch memory in its home; None for constants."""
    memory = argument.memory
    if not isinstance(memory, Location | Scratch) or memory.root not in allocation.buffers:
        return None
    buffer, start = allocation.buffers[memory.root]
    if isinstance(memory, Scratch):
        return BufferUse(buffer, start // argument.pointer.dtype.size)
    return BufferUse(buffer, start // memory.dtype.size + memory.offset)


def fits_image(device: DeviceInfo, array: np.ndarray, start: int) -> bool:
    """Whether a constant that starts at a byte of the block can be read by an image: one of the
    whole block up to its end, or one that begins near it.
    """
    end, near = start + array.nbytes, array.nbytes + device.alignment
    needed = min(end, near) if device.image_windows else end
    return needed <= device.image_texels * 4 * array.dtype.itemsize


def value_bytes(graph: Graph, place: Location, root: str) -> int:
    return storage_elements(place.layout, graph.types[root]) * place.dtype.size


def memory_uses(
    graph: Graph, built: Sequence[Built], locations: Mapping[str, Location]
) -> Iterator[tuple[int, str, int]]:
    """What kernels touch besides constants: the kernel's number, the root, and its bytes."""
    for number, item in enumerate(built):
        for argument in item.kernel.buffers:
            memory = argument.memory
            if isinstance(memory, Scratch):
                yield number, memory.root, memory.bytes
            elif isinstance(memory, Location) and memory.root in locations:
                yield number, memory.root, value_bytes(graph, locations[memory.root], memory.root)

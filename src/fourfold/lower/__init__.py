"""From a graph to a plan: places, kernels, memory, and the flat list of launches."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fourfold.device import DeviceInfo
from fourfold.graph import Graph
from fourfold.kernel.kernel import Kernel
from fourfold.kernel.opencl import render
from fourfold.kernel.place import Place, storage_elements
from fourfold.kernel.site import Options, Packed
from fourfold.lower.launches import Built, build_kernels, constant_storage
from fourfold.lower.memory import Span, assign_offsets
from fourfold.lower.places import choose_places
from fourfold.plan import Argument, Buffer, BufferUse, Launch, Plan, Port, Program

CONSTANT_ALIGNMENT = 64
ARENA, CONSTANTS = 0, 1
BUILD_OPTIONS = "-cl-std=CL1.2"


def make_plan(graph: Graph, device: DeviceInfo, options: Options) -> Plan:
    """The plan that computes the graph on a device with these facts."""
    places = choose_places(graph, options)
    built = build_kernels(graph, places, device, options)
    homes = _plan_memory(graph, built, places, device)
    constants = _Constants(graph)
    texts = _Texts()
    launches = tuple(_launch(item, texts, homes, constants) for item in built)
    blob = constants.blob()
    ports = [Buffer(name, "input", graph.types[name].bytes) for name in graph.inputs]
    results = list(dict.fromkeys(graph.outputs))
    ports += [Buffer(name, "output", graph.types[name].bytes) for name in results]
    buffers = (Buffer("arena", "arena", homes.arena), Buffer("constants", "constants", blob.nbytes))
    return Plan(
        name=graph.name,
        program=Program(texts.text(options), BUILD_OPTIONS),
        buffers=(*buffers, *ports),
        launches=launches,
        inputs=tuple(_port(graph, name, homes) for name in graph.inputs),
        outputs=tuple(_port(graph, name, homes) for name in graph.outputs),
        constants=blob,
        precision=options.precision,
    )


def _port(graph: Graph, name: str, homes: _Homes) -> Port:
    return Port(name, graph.types[name], homes.buffers[name][0], graph.quantization.get(name))


@dataclass(frozen=True)
class _Homes:
    """For every root: its buffer's number and its first byte there."""

    buffers: dict[str, tuple[int, int]]
    arena: int


def _plan_memory(
    graph: Graph, built: list[Built], places: dict[str, Place], device: DeviceInfo
) -> _Homes:
    homes: dict[str, tuple[int, int]] = {}
    for number, name in enumerate(graph.inputs):
        homes[name] = (2 + number, 0)
    for number, name in enumerate(dict.fromkeys(graph.outputs)):
        homes[name] = (2 + len(graph.inputs) + number, 0)
    touched: dict[str, list[int]] = {}
    for number, item in enumerate(built):
        for argument in item.kernel.buffers:
            memory = argument.memory
            if isinstance(memory, Place) and memory.root in places and memory.root not in homes:
                touched.setdefault(memory.root, []).append(number)
    spans = {}
    for root, uses in touched.items():
        place = places[root]
        size = storage_elements(place.layout, graph.types[root]) * place.dtype.size
        spans[root] = Span(size, min(uses), max(uses))
    offsets, arena = assign_offsets(spans, max(CONSTANT_ALIGNMENT, device.alignment))
    homes.update({root: (ARENA, offset) for root, offset in offsets.items()})
    return _Homes(homes, arena)


@dataclass
class _Constants:
    """All constants behind each other in one block; equal ones are kept once."""

    graph: Graph
    pieces: list[np.ndarray] = field(default_factory=list)
    offsets: dict[tuple[str, bytes], int] = field(default_factory=dict)
    end: int = 0

    def offset(self, array: np.ndarray) -> int:
        key = (f"{array.dtype}{array.size}", array.tobytes() if array.nbytes < 4096 else b"")
        if array.nbytes >= 4096 or key not in self.offsets:
            start = self.end
            self.pieces.append(array)
            self.end = start + -(-array.nbytes // CONSTANT_ALIGNMENT) * CONSTANT_ALIGNMENT
            if array.nbytes >= 4096:
                return start
            self.offsets[key] = start
        return self.offsets[key]

    def place_offset(self, place: Place) -> int:
        """The start of a constant of the graph, in the layout that kernels read tensors in."""
        key = (place.root, b"graph")
        if key not in self.offsets:
            self.offsets[key] = self.offset(constant_storage(self.graph.constants[place.root]))
        return self.offsets[key]

    def blob(self) -> np.ndarray:
        block = np.zeros(max(self.end, CONSTANT_ALIGNMENT), np.uint8)
        cursor = 0
        for piece in self.pieces:
            flat = np.ascontiguousarray(piece).reshape(-1).view(np.uint8)
            block[cursor : cursor + flat.size] = flat
            cursor += -(-flat.size // CONSTANT_ALIGNMENT) * CONSTANT_ALIGNMENT
        return block


class _Texts:
    """Every kernel text once, under an entry name made of its title and a number."""

    def __init__(self) -> None:
        self.entries: dict[str, tuple[str, Kernel]] = {}
        self.counts: dict[str, int] = {}

    def entry(self, kernel: Kernel) -> str:
        body = render(kernel, "entry")
        if body not in self.entries:
            number = self.counts.get(kernel.title, 0)
            self.counts[kernel.title] = number + 1
            self.entries[body] = (f"{kernel.title}_{number}", kernel)
        return self.entries[body][0]

    def text(self, options: Options) -> str:
        head = ["#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"] if options.real == "half" else []
        return "\n".join([*head, *(render(kernel, name) for name, kernel in self.entries.values())])


def _launch(item: Built, texts: _Texts, homes: _Homes, constants: _Constants) -> Launch:
    kernel = item.kernel
    arguments: list[Argument] = []
    for argument in kernel.buffers:
        memory = argument.memory
        if isinstance(memory, Packed):
            arguments.append(
                _use(CONSTANTS, constants.offset(memory.array), argument.pointer.dtype.size)
            )
        elif isinstance(memory, Place) and memory.root in homes.buffers:
            buffer, start = homes.buffers[memory.root]
            arguments.append(_use(buffer, start, memory.dtype.size, memory.offset))
        else:
            assert isinstance(memory, Place)
            start = constants.place_offset(memory)
            arguments.append(_use(CONSTANTS, start, memory.dtype.size, memory.offset))
    arguments.extend(kernel.sizes.values())
    return Launch(
        entry=texts.entry(kernel),
        arguments=tuple(arguments),
        grid=kernel.grid,
        local=kernel.local,
        title=kernel.title,
        node=str(item.node),
    )


def _use(buffer: int, start: int, size: int, offset: int = 0) -> BufferUse:
    return BufferUse(buffer, start // size + offset)

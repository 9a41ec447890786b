"""Details of a lowered graph that a plan does not record, for profiles and reports.

They say which node has which kernels in which variant, and where and how long each value lives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from fourfold.codegen.context import KernelOptions, Packed, Scratch
from fourfold.codegen.location import Location
from fourfold.compiler.lower.bind import with_extents
from fourfold.compiler.lower.chosen_kernels import ChosenKernels, choose_kernels
from fourfold.compiler.lower.kernels import (
    Built,
    KernelChoice,
    choose_kernel,
    constant_locations,
    is_free,
    node_contexts,
)
from fourfold.compiler.lower.program import write_list
from fourfold.device import DeviceInfo
from fourfold.graph import Graph, Node
from fourfold.plan import ARENA, Launch
from fourfold.types import silent_arithmetic


@dataclass(frozen=True)
class NodeDetail:
    """How one node runs: the key of its kernel choice, and the variant.

    The variant is '' if the node needs no kernel because its result is a view.
    """

    node: Node
    key: str
    way: str


@dataclass(frozen=True)
class KernelDetail:
    """One kernel as a launch of its own, with its text and the bytes it reads and writes."""

    node: int  # index of the node
    launch: Launch
    text: str
    bytes_read: int
    bytes_written: int


@dataclass(frozen=True)
class ValueSpan:
    """The position of a value in the arena, and the first and last kernel that uses it.

    For stages that run side by side, first and last are levels.
    """

    name: str
    offset: int
    bytes: int
    first: int
    last: int


@dataclass(frozen=True)
class LoweringDetails:
    """A graph as it was lowered. `levels` is the number of steps that the spans of values count."""

    graph: Graph
    nodes: tuple[NodeDetail, ...]
    kernels: tuple[KernelDetail, ...]
    spans: tuple[ValueSpan, ...]
    arena: int
    levels: int


@silent_arithmetic()
def lowering_details(
    graph: Graph, device: DeviceInfo, options: KernelOptions, choices: Mapping[str, str]
) -> LoweringDetails:
    """Return the details of what `make_plan` returns for the same arguments."""
    chosen = choose_kernels(graph, device, options, choices)
    nodes = tuple(_nodes(chosen))
    node_numbers = {id(one.node): number for number, one in enumerate(nodes)}
    kernels = tuple(_kernels(chosen, node_numbers))
    levels = chosen.arranged[0] if chosen.wants_one_launch else None
    allocation = chosen.memory.allocate(levels)
    spans = tuple(
        ValueSpan(root, allocation.buffers[root][1], span.bytes, span.first, span.last)
        for root, span in chosen.memory.spans(levels).items()
        if allocation.buffers[root][0] == ARENA
    )
    steps = 1 + max((span.last for span in spans), default=0)
    return LoweringDetails(chosen.graph, nodes, kernels, spans, allocation.arena, steps)


def _nodes(chosen: ChosenKernels) -> Iterator[NodeDetail]:
    for context in node_contexts(chosen.graph, chosen.locations, chosen.target):
        choice = choose_kernel(context, chosen.choices)
        assert isinstance(choice, KernelChoice), "nodes without a kernel were refused before"
        yield NodeDetail(context.node, context.key, "" if is_free(context) else str(choice))


def _kernels(chosen: ChosenKernels, node_numbers: Mapping[int, int]) -> Iterator[KernelDetail]:
    language, bound = chosen.language, chosen.draft.bound
    if language.capabilities.extents:
        bound = with_extents(bound, chosen.graph, chosen.locations)
    launches = write_list(bound, language, chosen.target).launches
    places_of = {**constant_locations(chosen.graph), **chosen.locations}
    for item, one, launch in zip(chosen.built, bound, launches, strict=True):
        text = language.render(one.kernel, launch.entry, one.images, one.buffers)
        read, written = _count_bytes(item, chosen.graph, places_of)
        yield KernelDetail(node_numbers[id(item.node)], launch, text, read, written)


def _count_bytes(item: Built, graph: Graph, locations: Mapping[str, Location]) -> tuple[int, int]:
    """Return the bytes that a kernel has to read and to write."""
    touched, changed = set[str](), set[str]()
    read = written = 0
    for argument in item.kernel.buffers:
        memory = argument.memory
        if isinstance(memory, Packed):
            read += memory.array.nbytes
        elif isinstance(memory, Scratch):
            written += memory.bytes if argument.pointer.writable else 0
            read += 0 if argument.pointer.writable else memory.bytes
        elif isinstance(memory, Location):
            (changed if argument.pointer.writable else touched).add(memory.root)

    def size(values: Iterable[str], roots: set[str]) -> int:
        stored = [(graph.types[value], locations[value]) for value in values if value in locations]
        return sum(type_.elements * at.dtype.size for type_, at in stored if at.root in roots)

    read += size(item.node.reads, touched | changed)
    return read, written + size(item.node.outputs, changed)

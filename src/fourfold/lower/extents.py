"""Computes the number of elements behind each pointer of a kernel, for bounds checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fourfold.graph import Graph
from fourfold.kernel.context import Packed, Scratch
from fourfold.kernel.kernel import BufferArgument
from fourfold.kernel.location import Location
from fourfold.lower.bind import Bound, value_bytes
from fourfold.lower.kernels import constant_locations
from fourfold.plan import Argument, BufferUse


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

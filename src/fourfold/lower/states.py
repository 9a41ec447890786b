"""States in a plan: each has a buffer of its own, which a run finds as the last one left it.

What a state becomes is written straight into that buffer where every kernel that reads the old
state has run by then. Elsewhere it is written beside it, and copied at the end of the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fourfold.graph import Graph, Node
from fourfold.kernel.location import Location
from fourfold.lower.kernels import Built


def copy_states(graph: Graph) -> Graph:
    """The graph with a copy of what each state becomes, behind everything else."""
    if not graph.states:
        return graph
    copies = {_copy(name): after for name, after in graph.states.items()}
    nodes = tuple(Node("identity", (after,), (copy,)) for copy, after in copies.items())
    types = {**graph.types, **{copy: graph.types[after] for copy, after in copies.items()}}
    outputs = (*graph.outputs, *copies)
    return replace(graph, nodes=(*graph.nodes, *nodes), types=types, outputs=outputs)


def settle_states(graph: Graph, built: Sequence[Built]) -> tuple[list[Built], Mapping[str, str]]:
    """The kernels without the copies that are not needed, and the values that go into states."""
    values: dict[str, str] = {}
    needless: set[str] = set()
    for name, after in graph.states.items():
        copy = _copy(name)
        reads = [number for number, item in enumerate(built) if name in _roots(item)]
        writes = [number for number, item in enumerate(built) if after in _roots(item)]
        if max(reads, default=-1) < min(writes):
            needless.add(copy)
            values[after] = name
        else:
            values[copy] = name
    kept = [item for item in built if needless.isdisjoint(item.node.outputs)]
    return kept, values


def _roots(item: Built) -> set[str]:
    """The values whose memory a kernel touches."""
    memories = (argument.memory for argument in item.kernel.buffers)
    return {memory.root for memory in memories if isinstance(memory, Location)}


def _copy(state: str) -> str:
    return f"{state} in the next run"

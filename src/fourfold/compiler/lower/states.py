"""States in a plan: each has its own buffer, which keeps its content from one run to the next.

The next value of a state is written directly into that buffer if all kernels that read the old
value have run by then. Otherwise it is written elsewhere and copied at the end of the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fourfold.codegen.location import Location
from fourfold.compiler.lower.kernels import Built
from fourfold.graph import Graph, Node


def copy_states(graph: Graph) -> Graph:
    """Append a copy of each state's next value to the graph."""
    if not graph.states:
        return graph
    copies = {_copy(name): after for name, after in graph.states.items()}
    nodes = tuple(Node("identity", (after,), (copy,)) for copy, after in copies.items())
    types = {**graph.types, **{copy: graph.types[after] for copy, after in copies.items()}}
    outputs = (*graph.outputs, *copies)
    return replace(graph, nodes=(*graph.nodes, *nodes), types=types, outputs=outputs)


def settle_states(graph: Graph, built: Sequence[Built]) -> tuple[list[Built], Mapping[str, str]]:
    """Return the kernels without needless copies, and the values that are stored in states."""
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
    """Return the values whose memory a kernel accesses."""
    memories = (argument.memory for argument in item.kernel.buffers)
    return {memory.root for memory in memories if isinstance(memory, Location)}


def _copy(state: str) -> str:
    return f"{state} in the next run"

"""Bookkeeping of values while a pass runs: renamed values, and constants."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from fourfold.graph import Graph, Node, Step
from fourfold.types import TensorType

FREE_BYTES = 64 << 20
FREE_WORK = 1 << 28  # operations, or elements that are read and written
WORK_PER_BYTE = 16


class Names:
    """Values found equal to others: `of` returns the current name, `apply` renames all nodes.

    Inputs and outputs of the graph keep their names.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._outputs = frozenset(graph.outputs)
        self._fixed = self._outputs | set(graph.inputs) | set(graph.constants)
        self._now: dict[str, str] = {}

    def of(self, name: str) -> str:
        while name in self._now:
            name = self._now[name]
        return name

    def equal(self, result: str, source: str) -> bool:
        """Merge two equal values; False if both must stay, so that a node has to copy."""
        source = self.of(source)
        if result not in self._outputs:
            self._now[result] = source
            return True
        if source in self._fixed:
            return False
        self._now[source] = result
        return True

    def node(self, node: Node) -> Node:
        """Return the node with the current names of all values."""
        if self._now.keys().isdisjoint((*node.reads, *node.outputs)):
            return node
        tail = tuple(Step(step.op, step.attributes, self._all(step.inputs)) for step in node.tail)
        outputs = tuple(self.of(name) for name in node.outputs)
        return replace(node, inputs=self._all(node.inputs), outputs=outputs, tail=tail)

    def apply(self, nodes: Iterable[Node]) -> Graph:
        return self._graph.with_nodes(tuple(self.node(node) for node in nodes))

    def _all(self, names: tuple[str | None, ...]) -> tuple[str | None, ...]:
        return tuple(None if name is None else self.of(name) for name in names)


class FoldBudget:
    """The work and memory that a pass may still spend on computing constants.

    Both are relative to the constants of the graph, which a file has to contain. A node beyond the
    budget is not folded.

    Args:
        graph: The graph before the pass.
        growth: Bytes of new constants for each byte of a constant of the graph.
    """

    def __init__(self, graph: Graph, growth: int) -> None:
        stored = sum(array.nbytes for array in graph.constants.values())
        self.bytes = growth * stored + FREE_BYTES
        self.work = WORK_PER_BYTE * stored + FREE_WORK

    def take(self, work: int, size: int) -> bool:
        """Spend operations and bytes; return False, and spend nothing, if they exceed the rest."""
        if work > self.work or size > self.bytes:
            return False
        self.work -= work
        self.bytes -= size
        return True


class PassConstants:
    """The constants of a graph and those that a pass adds."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._arrays = dict(graph.constants)
        self._types = dict(graph.types)
        self._counts: dict[str, int] = {}  # numbers added to names so far

    def __contains__(self, name: str | None) -> bool:
        return name in self._arrays

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def set(self, name: str, array: np.ndarray) -> None:
        """Turn an existing value of the graph into a constant."""
        self._arrays[name] = array

    def add(self, name: str, array: np.ndarray) -> str:
        """Add a constant under an unused name."""
        fresh = self.declare(name, TensorType.of(array))
        self._arrays[fresh] = array
        return fresh

    def declare(self, name: str, type_: TensorType) -> str:
        """Declare a value that a node will compute, under an unused name."""
        fresh = name
        while fresh in self._types:
            self._counts[name] = self._counts.get(name, 0) + 1
            fresh = f"{name}:{self._counts[name]}"
        self._types[fresh] = type_
        return fresh

    def apply(self, nodes: Iterable[Node]) -> Graph:
        return self._graph.with_nodes(tuple(nodes), types=self._types, constants=self._arrays)

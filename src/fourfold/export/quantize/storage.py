"""Storage of each value and constant of a graph, decided before a file is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from fourfold.export.quantize.grids import rounded
from fourfold.formats.writable import StoredAs
from fourfold.graph import Graph, Node

Place = tuple[str, int]  # first output of a node, and the index of one of its inputs


@dataclass(frozen=True, eq=False)
class Operand:
    """A constant as one node reads it: its real numbers, and their storage type."""

    array: np.ndarray
    stored: StoredAs

    @property
    def rounded(self) -> np.ndarray:
        """The real numbers after rounding to the storage type."""
        return rounded(self.array, self.stored.dtype, self.stored.quantization)


@dataclass(frozen=True, eq=False)
class StorageAssignment:
    """Storage types of a whole graph.

    Attributes:
        graph: The float graph.
        operands: Constants that are stored in another type, by the input that reads them.
        integer_nodes: First outputs of the nodes that compute on integers.
        grids: Grids of all values that those nodes read or write.
        regrids: Grids of inputs that are read on another grid than they are written on.
    """

    graph: Graph
    operands: Mapping[Place, Operand]
    integer_nodes: frozenset[str] = frozenset()
    grids: Mapping[str, StoredAs] = field(default_factory=dict)
    regrids: Mapping[Place, StoredAs] = field(default_factory=dict)

    def on_integers(self, node: Node) -> bool:
        return node.outputs[0] in self.integer_nodes

    def input_count(self, node: Node) -> int:
        """Return the number of inputs, including operands appended to the node."""
        operands = [at for name, at in self.operands if name == node.outputs[0]]
        return max(len(node.inputs), max(operands, default=-1) + 1)

    def is_made(self, value: str) -> bool:
        """Return True if the node that makes a value computes on integers."""
        producer = self.graph.producers.get(value)
        return producer is not None and self.on_integers(producer)


def fresh_name(name: str, taken: set[str]) -> str:
    """Return the name, or a variant of it that is not taken yet, and mark it as taken."""
    fresh, count = name, 1
    while fresh in taken:
        count += 1
        fresh = f"{name}:{count}"
    taken.add(fresh)
    return fresh

"""How each value and each constant of a graph is to be kept, before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from fourfold.formats.writable import StoredAs
from fourfold.graph import Graph, Node
from fourfold.quantization.grids import rounded

Place = tuple[str, int]  # an input of a node, which is known by its first output


@dataclass(frozen=True, eq=False)
class Operand:
    """A constant as one node reads it: its real numbers, and how they are kept."""

    array: np.ndarray
    stored: StoredAs

    @property
    def rounded(self) -> np.ndarray:
        """The real numbers that are left of it."""
        return rounded(self.array, self.stored.dtype, self.stored.quantization)


@dataclass(frozen=True, eq=False)
class StorageAssignment:
    """`integer_nodes` compute on integers, known by their first output. `grids` are those of all
    values that they read or write; what they read on another grid than it is written on is in
    `regrids`. `operands` are the constants that are not kept as they are.
    """

    graph: Graph
    operands: Mapping[Place, Operand]
    integer_nodes: frozenset[str] = frozenset()
    grids: Mapping[str, StoredAs] = field(default_factory=dict)
    regrids: Mapping[Place, StoredAs] = field(default_factory=dict)

    def on_integers(self, node: Node) -> bool:
        return node.outputs[0] in self.integer_nodes

    def input_count(self, node: Node) -> int:
        """Its inputs, and the constants that it gets behind them."""
        places = [at for name, at in self.operands if name == node.outputs[0]]
        return max(len(node.inputs), max(places, default=-1) + 1)

    def is_made(self, value: str) -> bool:
        """Whether a value comes as integers from the node that makes it."""
        producer = self.graph.producers.get(value)
        return producer is not None and self.on_integers(producer)


def fresh_name(name: str, taken: set[str]) -> str:
    """The name, or one like it that no value has yet; it is then taken."""
    found, count = name, 1
    while found in taken:
        count += 1
        found = f"{name}:{count}"
    taken.add(found)
    return found

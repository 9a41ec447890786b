"""The block of all constants of a plan."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fourfold.graph import Graph
from fourfold.kernel.location import Location
from fourfold.lower.kernels import constant_storage
from fourfold.plan import CONSTANT_ALIGNMENT


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

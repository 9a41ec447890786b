"""The block of all constants of a plan, and the buffers that hold it."""

from __future__ import annotations

import sys
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from fourfold.graph import Graph
from fourfold.kernel.location import Location
from fourfold.lower.kernels import constant_storage
from fourfold.plan import CONSTANT_ALIGNMENT, CONSTANTS, Buffer


@dataclass
class Constants:
    """All constants behind each other in one block; equal ones are kept once.

    Where the block is more than a device allocates at once, the `limit`, it is cut into several
    buffers, each from one of the `cuts` on; the second of them has the number `further`.
    """

    graph: Graph
    limit: int = sys.maxsize
    further: int = 0
    pieces: list[np.ndarray] = field(default_factory=list)
    alike: dict[int, list[tuple[int, np.ndarray]]] = field(default_factory=dict)  # by size
    roots: dict[str, int] = field(default_factory=dict)
    end: int = 0
    cuts: list[int] = field(default_factory=lambda: [0])

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
        if self.end - self.cuts[-1] > self.limit and start > self.cuts[-1]:
            self.cuts.append(start)
        return start

    def place(self, start: int) -> tuple[int, int]:
        """The buffer that holds what begins at a byte of the block, and where it begins there."""
        number = bisect_right(self.cuts, start) - 1
        buffer = self.further + number - 1 if number else CONSTANTS
        return buffer, start - self.cuts[number]

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

    def has_room_for(self, size: int) -> bool:
        """Whether one buffer holds all of the block, and so many bytes behind it."""
        return self.end + size + CONSTANT_ALIGNMENT <= self.limit

    def buffers(self) -> list[Buffer]:
        """Those that hold the block; all but the first begin within it."""
        sizes = [after - before for before, after in pairwise([*self.cuts, self.end])]
        first = Buffer("constants", "constants", max(sizes[0], CONSTANT_ALIGNMENT))
        starts = zip(self.cuts[1:], sizes[1:], strict=True)
        return [first, *(Buffer("constants", "constants", size, at) for at, size in starts)]


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether bytes are the same. Most differ from the start."""
    few = CONSTANT_ALIGNMENT
    return np.array_equal(a[:few], b[:few]) and np.array_equal(a, b)

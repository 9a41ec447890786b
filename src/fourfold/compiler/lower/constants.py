"""The block of all constants of a plan, and the buffers that hold it."""

from __future__ import annotations

import sys
from bisect import bisect_right
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import pairwise

import numpy as np

from fourfold.codegen.location import Location
from fourfold.compiler.lower.kernels import constant_storage
from fourfold.graph import Graph
from fourfold.plan import CONSTANT_ALIGNMENT, CONSTANTS, Buffer
from fourfold.plan.layout import ArrayLayout, Piece
from fourfold.types import DType


@dataclass
class Constants:
    """All constants one after the other in one block; equal ones are stored once.

    If the block exceeds `limit`, the device's allocation limit, it is split into several buffers,
    each starting at one of the `cuts`; the second of them has the number `further`.
    """

    graph: Graph
    limit: int = sys.maxsize
    further: int = 0
    pieces: list[np.ndarray] = field(default_factory=list)
    layouts: list[Piece] = field(default_factory=list)  # of the pieces
    # The pieces by size and first bytes, then by a digest; the first of them needs none yet.
    alike: dict[tuple[int, bytes], dict[bytes, tuple[int, np.ndarray]]] = field(
        default_factory=dict
    )
    # The arrays by identity, which also keeps them alive.
    offsets: dict[int, tuple[int, np.ndarray]] = field(default_factory=dict)
    roots: dict[str, int] = field(default_factory=dict)
    end: int = 0
    cuts: list[int] = field(default_factory=lambda: [0])

    def offset(self, array: np.ndarray, layout: ArrayLayout | None = None) -> int:
        """Return where an array is in the block; an equal one is not added again."""
        if id(array) not in self.offsets:
            self.offsets[id(array)] = (self._add(array, layout), array)
        return self.offsets[id(array)][0]

    def _add(self, array: np.ndarray, layout: ArrayLayout | None) -> int:
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        alike = self.alike.setdefault((flat.size, flat[:CONSTANT_ALIGNMENT].tobytes()), {})
        first = alike.pop(b"", None)
        if first is not None:
            alike[_digest(first[1])] = first
        start, _ = alike.setdefault(_digest(flat) if alike else b"", (self.end, flat))
        if start < self.end:
            return start
        self.pieces.append(flat)
        self.layouts.append(_piece(start, array, layout))
        self.end += -(-flat.size // CONSTANT_ALIGNMENT) * CONSTANT_ALIGNMENT
        if self.end - self.cuts[-1] > self.limit and start > self.cuts[-1]:
            self.cuts.append(start)
        return start

    def place(self, start: int) -> tuple[int, int]:
        """Return the buffer that holds a byte of the block, and the byte's offset there."""
        number = bisect_right(self.cuts, start) - 1
        buffer = self.further + number - 1 if number else CONSTANTS
        return buffer, start - self.cuts[number]

    def place_offset(self, location: Location) -> int:
        """Return the offset of a constant of the graph, stored in the layout of tensors."""
        root = location.root
        if root not in self.roots:
            self.roots[root] = self.offset(*constant_storage(self.graph.constants[root]))
        return self.roots[root]

    def blob(self) -> np.ndarray:
        block = np.zeros(max(self.end, CONSTANT_ALIGNMENT), np.uint8)
        cursor = 0
        for flat in self.pieces:
            block[cursor : cursor + flat.size] = flat
            cursor += -(-flat.size // CONSTANT_ALIGNMENT) * CONSTANT_ALIGNMENT
        return block

    def can_append(self, size: int) -> bool:
        """Return whether one buffer can hold the whole block and `size` more bytes."""
        return self.end + size + CONSTANT_ALIGNMENT <= self.limit

    def buffers(self) -> list[Buffer]:
        """Return the buffers that hold the block; all but the first start inside it."""
        sizes = [after - before for before, after in pairwise([*self.cuts, self.end])]
        first = Buffer("constants", "constants", max(sizes[0], CONSTANT_ALIGNMENT))
        starts = zip(self.cuts[1:], sizes[1:], strict=True)
        return [first, *(Buffer("constants", "constants", size, at) for at, size in starts)]


def _digest(flat: np.ndarray) -> bytes:
    return blake2b(flat.data, digest_size=16).digest()


def _piece(start: int, array: np.ndarray, layout: ArrayLayout | None) -> Piece:
    """Return the description of a constant; words that are laid out as bytes count as bytes."""
    if layout is None:
        return Piece(start, DType.of(array), ArrayLayout.plain((array.size,)))
    whole = layout.elements == array.size
    return Piece(start, DType.of(array) if whole else DType.I8, layout)

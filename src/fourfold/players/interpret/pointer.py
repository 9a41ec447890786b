"""What a pointer leads to, and how its elements are read and written: with every check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from fourfold.plan.host_protocol import PIECE
from fourfold.players.interpret import faults
from fourfold.players.interpret.frame import Frame
from fourfold.players.interpret.memory import WRITTEN, Memory
from fourfold.players.interpret.races import MANY
from fourfold.types import DType

LANES = {width: np.arange(width, dtype=np.int64)[:, None] for width in (1, 2, 4, 8, 16)}
GLOBAL, LOCAL, PRIVATE = "global", "local", "private"


@dataclass(frozen=True, eq=False)
class Place:
    """Elements of some memory. `origin` is the first of them, for all work-items the same or not;
    `extent` counts them. `moved` is how far a pointer went ahead of its origin.
    """

    title: str
    memory: Memory
    dtype: np.dtype
    origin: int | np.ndarray
    extent: int
    space: str
    watched: bool = True  # whether somebody may write here while others read
    constant: bool = False
    moved: np.ndarray | None = None
    given: int | None = None  # host memory: how many pieces of other inputs come before it

    def further(self, title: str, distance: np.ndarray) -> Place:
        """The same memory from another element on."""
        before = self.moved
        return replace(self, title=title, moved=distance if before is None else before + distance)

    def kept(self, keep: Callable[[np.ndarray], np.ndarray]) -> Place:
        """The same for some of the work-items."""
        origin = self.origin if isinstance(self.origin, int) else keep(self.origin)
        return replace(self, origin=origin, moved=None if self.moved is None else keep(self.moved))

    def read(self, frame: Frame, index: np.ndarray, width: int, apart: int = 1) -> np.ndarray:
        """`width` elements from each index on, which must be a multiple of `apart`."""
        start = self._start(frame, index, width, apart, "reads")
        if frame.early and self.space == GLOBAL and not self.constant:
            raise faults.too_early(frame, self.title, "reads")
        if self.given is not None:
            self._check_brought(frame, start)
        origin = self._origin(frame)
        cells = start + origin if width == 1 else start + origin + LANES[width]
        if not self.memory.complete:
            size = self.dtype.itemsize
            missing = self.memory.written(size).take(cells) != WRITTEN[size]
            if missing.any():
                raise faults.never_written(frame, self.title, cells - origin, missing)
        if self.watched:
            self._note_read(frame, cells)
        found: np.ndarray = self.memory.elements(self.dtype).take(cells)
        return found

    def write(
        self, frame: Frame, index: np.ndarray, value: np.ndarray, width: int, apart: int = 1
    ) -> None:
        """Put the lanes of a value at each index and behind it."""
        start = self._start(frame, index, width, apart, "writes")
        if frame.early and self.space == GLOBAL:
            raise faults.too_early(frame, self.title, "writes")
        cells = start + self._origin(frame) + LANES[width]
        cells = np.broadcast_to(cells, (width, frame.lanes))
        value = np.broadcast_to(frame.settled(value), cells.shape)
        data, size = self.memory.elements(self.dtype), self.dtype.itemsize
        if self.space != PRIVATE:
            self._note_write(frame, cells, _same(data[cells], value))
        data[cells] = value
        self.memory.written(size)[cells] = WRITTEN[size]
        if self.space != PRIVATE:
            other = ~_same(data[cells], value)
            if other.any():
                self._refuse(frame, "writes", cells, np.where(other, MANY, -1))

    def _origin(self, frame: Frame) -> int | np.ndarray:
        return self.origin if isinstance(self.origin, int) else frame.settled(self.origin)

    def _start(
        self, frame: Frame, index: np.ndarray, width: int, apart: int, verb: str
    ) -> np.ndarray:
        """The first element of each work-item, counted from the origin: within the extent."""
        start = index.astype(np.int64, copy=False)
        if self.moved is not None:
            start = start + self.moved
        start = frame.settled(start)
        # A negative number is a very large one here.
        limit, largest = self.extent - width, start.view(np.uint64)
        if limit < 0 or (largest[0, 0] if start.size == 1 else largest.max()) > limit:
            raise faults.out_of_bounds(frame, self.title, verb, start, width, self.extent)
        base = self.origin if isinstance(self.origin, int) else 0
        if apart > 1 and (self.moved is not None or base % apart):
            rest = (start + base) % apart
            if rest.any():
                raise faults.misaligned(frame, self.title, verb, start, rest, apart)
        return start

    def _check_brought(self, frame: Frame, start: np.ndarray) -> None:
        """Nothing is read before the host has brought it."""
        assert self.given is not None
        needed = start * self.dtype.itemsize // PIECE + (self.given + 1)
        late = needed > frame.settled(frame.pieces)
        if late.any():
            raise faults.not_brought(frame, self.title, start, late)

    def _note_read(self, frame: Frame, cells: np.ndarray) -> None:
        if cells.shape[1] != frame.lanes:
            cells = np.broadcast_to(cells, (cells.shape[0], frame.lanes))
        stamps = self._stamps(frame)
        conflicts = self.memory.shadow.read(self._small(cells), *stamps)
        if conflicts.max() >= 0:
            self._refuse(frame, "reads", cells, conflicts)

    def _note_write(self, frame: Frame, cells: np.ndarray, same: np.ndarray) -> None:
        stamps = self._stamps(frame)
        same = np.repeat(same, self.dtype.itemsize // self.memory.cell, axis=0)
        conflicts = self.memory.shadow.write(self._small(cells), same, *stamps)
        if conflicts.max() >= 0:
            self._refuse(frame, "writes", cells, conflicts)

    def _stamps(self, frame: Frame) -> tuple[np.ndarray, np.ndarray | int]:
        return frame.local_stamps if self.space == LOCAL else frame.stamps

    def _refuse(self, frame: Frame, verb: str, cells: np.ndarray, conflicts: np.ndarray) -> None:
        owner = partial(faults.local_owner, frame) if self.space == LOCAL else frame.turn.owner
        indices = cells - self._origin(frame)
        raise faults.race(frame, self.title, verb, indices, conflicts, owner)

    def _small(self, cells: np.ndarray) -> np.ndarray:
        """Elements as cells of the memory's shadow, those of an element below each other."""
        parts = self.dtype.itemsize // self.memory.cell
        if parts == 1:
            return cells
        return (cells[:, None] * parts + LANES[parts]).reshape(-1, cells.shape[1])


def _same(held: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Where memory holds the very bits of a value."""
    bits = np.dtype(f"u{held.dtype.itemsize}")
    return held.view(bits) == np.ascontiguousarray(value).view(bits)


def element_type(dtype: DType) -> np.dtype:
    """How elements lie in memory: truth is a byte."""
    return np.dtype(np.uint8) if dtype is DType.BOOL else dtype.numpy

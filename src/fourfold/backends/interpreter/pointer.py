"""Pointers of a kernel: reads and writes of their elements with all checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from fourfold.backends.interpreter import faults
from fourfold.backends.interpreter.frame import Frame
from fourfold.backends.interpreter.memory import SEVERAL, WRITTEN, CheckedMemory
from fourfold.plan.host_protocol import PIECE
from fourfold.types import DType

LANES = {width: np.arange(width, dtype=np.int64)[:, None] for width in (1, 2, 4, 8, 16)}
GLOBAL, LOCAL, PRIVATE = "global", "local", "private"


@dataclass(frozen=True, eq=False)
class BoundPointer:
    """A pointer of a kernel, and the elements that it can access.

    `origin` is the first element in the memory, per work-item or the same for all. `extent` is
    their number, and `shift` the offset of the pointer from its origin.
    """

    title: str
    memory: CheckedMemory
    dtype: np.dtype
    origin: int | np.ndarray
    extent: int
    space: str
    tracked: bool = True  # whether some work-items may write here while others read
    constant: bool = False
    shift: np.ndarray | None = None
    first_piece: int | None = None  # for host memory: number of pieces of other inputs before it

    def shifted(self, title: str, distance: np.ndarray) -> BoundPointer:
        """Return the same memory, starting at another element."""
        before = self.shift
        return replace(self, title=title, shift=distance if before is None else before + distance)

    def selected(self, keep: Callable[[np.ndarray], np.ndarray]) -> BoundPointer:
        """Return the pointer for a subset of the work-items."""
        origin = self.origin if isinstance(self.origin, int) else keep(self.origin)
        return replace(self, origin=origin, shift=None if self.shift is None else keep(self.shift))

    def read(self, frame: Frame, index: np.ndarray, width: int, alignment: int = 0) -> np.ndarray:
        """Read `width` elements at `index * width`, or, with an `alignment` that divides the index,
        starting at the element `index`.
        """
        start = self._start(frame, index, width, alignment, "reads")
        if frame.awaits_inputs and self.space == GLOBAL and not self.constant:
            raise faults.too_early(frame, self.title, "reads")
        if self.first_piece is not None:
            self._check_uploaded(frame, start)
        origin = self._origin(frame)
        cells = start + origin if width == 1 else start + origin + LANES[width]
        if not self.memory.complete:
            size = self.dtype.itemsize
            missing = self.memory.written(size).take(cells) != WRITTEN[size]
            if missing.any():
                raise faults.never_written(frame, self.title, cells - origin, missing)
        if self.tracked:
            self._note_read(frame, cells)
        elements: np.ndarray = self.memory.elements(self.dtype).take(cells)
        return elements

    def write(
        self, frame: Frame, index: np.ndarray, value: np.ndarray, width: int, alignment: int = 0
    ) -> None:
        """Write the lanes of a value."""
        start = self._start(frame, index, width, alignment, "writes")
        if frame.awaits_inputs and self.space == GLOBAL:
            raise faults.too_early(frame, self.title, "writes")
        cells = start + self._origin(frame) + LANES[width]
        cells = np.broadcast_to(cells, (width, frame.lanes))
        value = np.broadcast_to(frame.fill_inactive(value), cells.shape)
        data, size = self.memory.elements(self.dtype), self.dtype.itemsize
        if self.space != PRIVATE:
            self._note_write(frame, cells, _same(data[cells], value))
        data[cells] = value
        self.memory.written(size)[cells] = WRITTEN[size]
        if self.space != PRIVATE:
            other = ~_same(data[cells], value)
            if other.any():
                self._raise_race(frame, "writes", cells, np.where(other, SEVERAL, -1))

    def _origin(self, frame: Frame) -> int | np.ndarray:
        return self.origin if isinstance(self.origin, int) else frame.fill_inactive(self.origin)

    def _start(
        self, frame: Frame, index: np.ndarray, width: int, alignment: int, verb: str
    ) -> np.ndarray:
        """Return the first element of each work-item relative to the origin, checked against the
        extent.
        """
        start = index.astype(np.int64, copy=False)
        if not alignment and width > 1:
            start = start * width
        if self.shift is not None:
            start = start + self.shift
        start = frame.fill_inactive(start)
        # As unsigned, a negative index is a very large one.
        limit, largest = self.extent - width, start.view(np.uint64)
        if limit < 0 or (largest[0, 0] if start.size == 1 else largest.max()) > limit:
            raise faults.out_of_bounds(frame, self.title, verb, start, width, self.extent)
        required = alignment or self._unproven_alignment(width)
        if required > 1:
            base = self.origin if isinstance(self.origin, int) else 0
            remainders = (start + base) % required
            if remainders.any():
                raise faults.misaligned(frame, self.title, verb, start, remainders, required)
        return start

    def _unproven_alignment(self, width: int) -> int:
        """Return the alignment to check for vectors of this width; 1 if they are always aligned."""
        aligned = not isinstance(self.origin, int) or self.origin % width == 0
        return 1 if aligned and self.shift is None else width

    def _check_uploaded(self, frame: Frame, start: np.ndarray) -> None:
        """Check that nothing is read before the host has uploaded it."""
        assert self.first_piece is not None
        needed = start * self.dtype.itemsize // PIECE + (self.first_piece + 1)
        late = needed > frame.fill_inactive(frame.pieces)
        if late.any():
            raise faults.not_uploaded(frame, self.title, start, late)

    def _note_read(self, frame: Frame, cells: np.ndarray) -> None:
        if cells.shape[1] != frame.lanes:
            cells = np.broadcast_to(cells, (cells.shape[0], frame.lanes))
        stamps = self._stamps(frame)
        conflicts = self.memory.history.read(self._to_cells(cells), *stamps)
        if conflicts.max() >= 0:
            self._raise_race(frame, "reads", cells, conflicts)

    def _note_write(self, frame: Frame, cells: np.ndarray, same: np.ndarray) -> None:
        stamps = self._stamps(frame)
        same = np.repeat(same, self.dtype.itemsize // self.memory.cell, axis=0)
        conflicts = self.memory.history.write(self._to_cells(cells), same, *stamps)
        if conflicts.max() >= 0:
            self._raise_race(frame, "writes", cells, conflicts)

    def _stamps(self, frame: Frame) -> tuple[np.ndarray, np.ndarray | int]:
        return frame.local_stamps if self.space == LOCAL else frame.stamps

    def _raise_race(
        self, frame: Frame, verb: str, cells: np.ndarray, conflicts: np.ndarray
    ) -> None:
        owner = partial(faults.local_owner, frame) if self.space == LOCAL else frame.launch.owner
        indices = cells - self._origin(frame)
        raise faults.race(frame, self.title, verb, indices, conflicts, owner)

    def _to_cells(self, cells: np.ndarray) -> np.ndarray:
        """Convert elements to cells of the memory's history, those of one element
        below each other.
        """
        parts = self.dtype.itemsize // self.memory.cell
        if parts == 1:
            return cells
        return (cells[:, None] * parts + LANES[parts]).reshape(-1, cells.shape[1])


def _same(held: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Return True where memory holds exactly the bits of a value."""
    bits = np.dtype(f"u{held.dtype.itemsize}")
    return held.view(bits) == np.ascontiguousarray(value).view(bits)


def element_type(dtype: DType) -> np.dtype:
    """Return the type of elements in memory: a bool is a byte."""
    return np.dtype(np.uint8) if dtype is DType.BOOL else dtype.numpy

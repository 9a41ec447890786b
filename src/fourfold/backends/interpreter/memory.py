"""Memory that records which bytes were written, and who accessed them last, to detect races.

A *stamp* is a level and the number of a work-item: `level << LEVEL | number`. Work-items that were
released at a later level see what was done at this one. For all others it is *live*: their `live`
is the lowest stamp of the levels that they may not have waited for. Two work-items race if one
writes a cell that the other has accessed, and the other's stamp is live.

Several work-items may write the same bits. Kernels do so on purpose, if deciding who should write
would take longer, or if an existing element stands in for one that does not exist.
"""

from __future__ import annotations

import numpy as np

LEVEL = 40  # bits below those of a level
SEVERAL = 1 << 39  # bit of a stamp that stands for several work-items
_NOBODY = -1


class AccessHistory:
    """The last writer and the last reader of every cell."""

    def __init__(self, cells: int) -> None:
        self.writers = np.full(cells, _NOBODY, np.int64)
        self.readers = np.full(cells, _NOBODY, np.int64)

    def forget(self) -> None:
        """Drop the history: everything done so far is visible to all."""
        self.writers.fill(_NOBODY)
        self.readers.fill(_NOBODY)

    def read(self, cells: np.ndarray, stamps: np.ndarray, live: np.ndarray | int) -> np.ndarray:
        """Record that cells are read; returns the stamps of conflicting writers, else -1."""
        writers = self.writers[cells]
        conflicts = np.where((writers >= live) & (writers != stamps), writers, _NOBODY)
        before = self.readers[cells]
        alone = (before < live) | (before == stamps)
        after = np.where(alone, stamps, np.maximum(before, stamps) | SEVERAL)
        self._note(self.readers, cells, after)
        return conflicts

    def write(
        self, cells: np.ndarray, same: np.ndarray, stamps: np.ndarray, live: np.ndarray | int
    ) -> np.ndarray:
        """Record that cells are written, where `same` means that the bits do not change; returns
        the stamps of conflicting accesses, else -1.
        """
        readers = self.readers[cells]
        conflicts = np.where((readers >= live) & (readers != stamps), readers, _NOBODY)
        before = self.writers[cells]
        alone = (before < live) | (before == stamps)
        conflicts = np.where(alone | same, conflicts, before)
        after = np.where(alone, stamps, np.maximum(before, stamps) | SEVERAL)
        self._note(self.writers, cells, after)
        return conflicts

    def _note(self, last: np.ndarray, cells: np.ndarray, stamps: np.ndarray) -> None:
        """Set each cell's stamp, marked as several if different work-items access it at once."""
        last[cells] = stamps
        several = last[cells] != stamps
        if several.any():
            last[cells[several]] = np.broadcast_to(stamps, cells.shape)[several] | SEVERAL


ALIGNED = 64  # bytes; alignment of a buffer, whose padding at the end belongs to it
POISON = np.frombuffer(b"\xc0\x7f\xc0\x7f", np.uint8)  # NaN as fp32, and as two fp16
_FLAGS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
WRITTEN = {size: dtype(int("01" * size, 16)) for size, dtype in _FLAGS.items()}


class CheckedMemory:
    """The bytes of a buffer, or of an array that a kernel declares.

    `cell` is the granularity of race detection in bytes: the smallest element that is accessed.
    """

    def __init__(self, size: int, cell: int, written: bool = False) -> None:
        self.size, self.cell = size, cell
        padded_size = -(-max(size, 1) // ALIGNED) * ALIGNED
        self.bytes = np.zeros(padded_size, np.uint8)
        self.flags = np.full(padded_size, written, np.uint8)
        self.flags[size:] = 1  # padding counts as written
        self.complete = written  # all bytes are written
        self._history: AccessHistory | None = None

    @property
    def history(self) -> AccessHistory:
        """Access history, created on first use."""
        if self._history is None:
            self._history = AccessHistory(self.bytes.size // self.cell)
        return self._history

    def forget(self) -> None:
        """Drop the access history: everything done so far is visible to all."""
        if self._history is not None:
            self._history.forget()

    def elements(self, dtype: np.dtype) -> np.ndarray:
        """Return the memory as elements of a type."""
        return self.bytes.view(dtype)

    def written(self, size: int) -> np.ndarray:
        """Return an array with WRITTEN[size] for each element whose bytes were all written."""
        return self.flags.view(_FLAGS[size])

    def fill(self, content: np.ndarray) -> None:
        """Copy bytes to the beginning; they count as written."""
        self.bytes[: content.nbytes] = content.reshape(-1).view(np.uint8)
        self.flags[: content.nbytes] = 1
        self.complete = bool(self.flags.all())

    def blank(self, start: int = 0, stop: int | None = None) -> None:
        """Mark bytes as unwritten, and fill them with NaN."""
        stop = self.size if stop is None else stop
        self.bytes[start:stop] = np.resize(POISON, stop - start)
        self.flags[start:stop] = 0
        self.complete = False

    def first_missing(self, size: int) -> int | None:
        """Return the first of `size` bytes that was never written."""
        missing = np.flatnonzero(self.flags[:size] == 0)
        return int(missing[0]) if missing.size else None

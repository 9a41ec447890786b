"""Race detection: the last access to each cell of memory.

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

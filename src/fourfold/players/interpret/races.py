"""Who touched each cell of memory last, so that two who must not are found out.

A *stamp* is a level and the number of a work-item: `level << LEVEL | number`. Who was released at a
later level can rely on what was done at this one. For all others it is *live*: their `live` is the
lowest stamp of the levels that they cannot have waited for. Two work-items race if one writes a
cell that the other has touched, and the other's stamp is live.

Several may write the same bits. Kernels do so on purpose: where to find out who should write
would take longer, or where a place that exists stands in for one that does not.
"""

from __future__ import annotations

import numpy as np

LEVEL = 40  # bits below those of a level
MANY = 1 << 39  # the bit of a stamp that stands for several work-items
_NOBODY = -1


class AccessHistory:
    """The last writer and the last reader of every cell."""

    def __init__(self, cells: int) -> None:
        self.writers = np.full(cells, _NOBODY, np.int64)
        self.readers = np.full(cells, _NOBODY, np.int64)

    def forget(self) -> None:
        """All that was done so far can be relied on."""
        self.writers.fill(_NOBODY)
        self.readers.fill(_NOBODY)

    def read(self, cells: np.ndarray, stamps: np.ndarray, live: np.ndarray | int) -> np.ndarray:
        """Note that cells are read; where others wrote them, their stamps, else -1."""
        writers = self.writers[cells]
        conflicts = np.where((writers >= live) & (writers != stamps), writers, _NOBODY)
        before = self.readers[cells]
        alone = (before < live) | (before == stamps)
        after = np.where(alone, stamps, np.maximum(before, stamps) | MANY)
        self._note(self.readers, cells, after)
        return conflicts

    def write(
        self, cells: np.ndarray, same: np.ndarray, stamps: np.ndarray, live: np.ndarray | int
    ) -> np.ndarray:
        """Note that cells are written, with what they already hold where it is the `same`; where
        others touched them, their stamps, else -1.
        """
        readers = self.readers[cells]
        conflicts = np.where((readers >= live) & (readers != stamps), readers, _NOBODY)
        before = self.writers[cells]
        alone = (before < live) | (before == stamps)
        conflicts = np.where(alone | same, conflicts, before)
        after = np.where(alone, stamps, np.maximum(before, stamps) | MANY)
        self._note(self.writers, cells, after)
        return conflicts

    def _note(self, last: np.ndarray, cells: np.ndarray, stamps: np.ndarray) -> None:
        """Each cell's new stamp; of several at once for one cell, that there were many."""
        last[cells] = stamps
        several = last[cells] != stamps
        if several.any():
            last[cells[several]] = np.broadcast_to(stamps, cells.shape)[several] | MANY

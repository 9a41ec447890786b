"""Player of a plan whose stages record their times."""

from __future__ import annotations

import numpy as np

from fourfold.players.opencl.player import Player


class ClockedPlayer(Player):
    """Player for plans with clocks."""

    def read_clocks(self) -> np.ndarray:
        """Return what each work-group recorded in the last run."""
        clocks = self.plan.clocks
        assert clocks is not None
        notes, memory = np.empty(clocks.shape, np.int64), self._buffers[clocks.buffer]
        self._guard("reading clocks", lambda: self._queue.read(memory, notes, clocks.offset))
        return notes

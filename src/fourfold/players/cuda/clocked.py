"""Player of a plan whose stages record their times."""

from __future__ import annotations

import numpy as np

from fourfold.players.cuda.player import Player


class ClockedPlayer(Player):
    """Player for plans with clocks."""

    def read_clocks(self) -> np.ndarray:
        """Return what each work-group recorded in the last run."""
        clocks = self.plan.clocks
        assert clocks is not None
        notes = np.empty(clocks.shape, np.int64)
        with self._working("reading clocks"):
            self._stream.read(self._buffers.addresses[clocks.buffer] + clocks.offset, notes)
            self._stream.finish()
        return notes

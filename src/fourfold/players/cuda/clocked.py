"""A player of a plan whose stages note their times."""

from __future__ import annotations

import numpy as np

from fourfold.players.cuda.player import Player


class ClockedPlayer(Player):
    """Plays as its base does; the clocks are the plan's."""

    def read_clocks(self) -> np.ndarray:
        """What each group noted in the last run of a plan that has clocks."""
        clocks = self.plan.clocks
        assert clocks is not None
        notes = np.empty(clocks.shape, np.int64)
        with self._working("reading clocks"):
            self._stream.read(self._buffers.addresses[clocks.buffer] + clocks.offset, notes)
            self._stream.finish()
        return notes

"""A player of a plan whose stages note their times."""

from __future__ import annotations

import numpy as np

from fourfold.players.opencl.player import Player


class ClockedPlayer(Player):
    """Plays as its base does; the clocks are the plan's."""

    def read_clocks(self) -> np.ndarray:
        """What each group noted in the last run of a plan that has clocks."""
        clocks = self.plan.clocks
        assert clocks is not None
        notes, memory = np.empty(clocks.shape, np.int64), self._buffers[clocks.buffer]
        self._guard("reading clocks", lambda: self._queue.read(memory, notes, clocks.offset))
        return notes

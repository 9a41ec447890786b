"""Times single launches of a plan and reads their results, for the tuner."""

from __future__ import annotations

import numpy as np

from fourfold.backends.interpreter.player import Player
from fourfold.backends.timing import LaunchesOneByOne
from fourfold.plan import ARENA


class LaunchTimer(Player, LaunchesOneByOne):
    """A plan whose launches are run one by one. The interpreter's times say little about a device,
    but the results can be compared.
    """

    def fill(self, values: np.ndarray) -> None:
        """Copy these bytes into the arena."""
        self._buffers.memories[ARENA].fill(values)

    def blank(self, offset: int, size: int) -> None:
        """Fill a part of the arena with NaN, so that unwritten values show up."""
        self._buffers.memories[ARENA].blank(offset, offset + size)

    def read(self, offset: int, dtype: np.dtype, count: int) -> np.ndarray:
        """Return elements of the arena."""
        content = self._buffers.memories[ARENA].bytes[offset : offset + count * dtype.itemsize]
        return content.view(dtype).copy()

    def seconds(self, launches: range, runs: int) -> float:
        """Return the shortest time that these launches take together."""
        return min(sum(self._times(launches)[number] for number in launches) for _ in range(runs))

"""Times single launches of a plan and looks at what they wrote: the tuner's eyes."""

from __future__ import annotations

import numpy as np

from fourfold.plan import ARENA
from fourfold.players.interpret.player import Player
from fourfold.players.timing import LaunchesOneByOne


class LaunchTimer(Player, LaunchesOneByOne):
    """A plan whose launches are run one by one. How long an interpreter takes for them says little
    of any device, but what they write can be compared.
    """

    def fill(self, values: np.ndarray) -> None:
        """Put these bytes into the arena."""
        self._buffers.memories[ARENA].fill(values)

    def blank(self, offset: int, size: int) -> None:
        """Make a part of the arena NaN, so that what is not written shows."""
        self._buffers.memories[ARENA].blank(offset, offset + size)

    def read(self, offset: int, dtype: np.dtype, count: int) -> np.ndarray:
        """PointerLike of the arena."""
        content = self._buffers.memories[ARENA].bytes[offset : offset + count * dtype.itemsize]
        return content.view(dtype).copy()

    def seconds(self, launches: range, runs: int) -> float:
        """The shortest time that these launches take together."""
        return min(sum(self._times(launches)[number] for number in launches) for _ in range(runs))

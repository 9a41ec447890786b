"""Times single launches of a plan and looks at what they wrote: the tuner's eyes."""

from __future__ import annotations

import numpy as np

from fourfold.plan import ARENA
from fourfold.players.cuda.buffers import POISON
from fourfold.players.cuda.player import Player
from fourfold.players.cuda.replay import launch_seconds
from fourfold.players.timing import LaunchesOneByOne


class LaunchTimer(Player, LaunchesOneByOne):
    """A plan whose launches are run one by one. Buffer 0 is the arena."""

    def fill(self, values: np.ndarray) -> None:
        """Put these bytes into the arena."""
        with self._working("filling memory"):
            self._stream.write(self._buffers.addresses[ARENA], values)
            self._stream.finish()

    def blank(self, offset: int, size: int) -> None:
        """Make a part of the arena NaN, so that what is not written shows."""
        with self._working("filling memory"):
            self._stream.fill(self._buffers.addresses[ARENA] + offset, POISON, -(-size // 4))
            self._stream.finish()

    def read(self, offset: int, dtype: np.dtype, count: int) -> np.ndarray:
        values = np.empty(count, dtype)
        with self._working("reading memory"):
            self._stream.read(self._buffers.addresses[ARENA] + offset, values)
            self._stream.finish()
        return values

    def seconds(self, launches: range, runs: int) -> float:
        """The shortest time from the first of these launches to the end of the last, by the
        device's own clock. Where one of them cannot run it is a DeviceError.
        """
        with self._working("timing kernels"):
            chosen = [self._own.launches[number] for number in launches]
            return min(sum(launch_seconds(chosen, self._stream)) for _ in range(runs))

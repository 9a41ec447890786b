"""Times single launches of a plan and reads their results, for the tuner."""

from __future__ import annotations

import numpy as np

from fourfold.backends.cuda.buffers import POISON
from fourfold.backends.cuda.player import Player
from fourfold.backends.cuda.replay import launch_seconds
from fourfold.backends.timing import LaunchesOneByOne
from fourfold.plan import ARENA


class LaunchTimer(Player, LaunchesOneByOne):
    """A plan whose launches are run one by one. Buffer 0 is the arena."""

    def fill(self, values: np.ndarray) -> None:
        """Copy these bytes into the arena."""
        with self._convert_errors("filling memory"):
            self._stream.write(self._buffers.addresses[ARENA], values)
            self._stream.finish()

    def blank(self, offset: int, size: int) -> None:
        """Fill a part of the arena with NaN, so that unwritten values show up."""
        with self._convert_errors("filling memory"):
            self._stream.fill(self._buffers.addresses[ARENA] + offset, POISON, -(-size // 4))
            self._stream.finish()

    def read(self, offset: int, dtype: np.dtype, count: int) -> np.ndarray:
        values = np.empty(count, dtype)
        with self._convert_errors("reading memory"):
            self._stream.read(self._buffers.addresses[ARENA] + offset, values)
            self._stream.finish()
        return values

    def seconds(self, launches: range, runs: int) -> float:
        """Return the shortest time from the start of the first launch to the end of the last, by
        the device's clock. Raises a DeviceError if one of them cannot run.
        """
        with self._convert_errors("timing kernels"):
            chosen = [self._own.launches[number] for number in launches]
            return min(sum(launch_seconds(chosen, self._stream)) for _ in range(runs))

"""Times single launches of a plan and reads their results, for the tuner."""

from __future__ import annotations

import numpy as np

from fourfold.backends.timing import LaunchesOneByOne
from fourfold.backends.webgpu import binding as wg
from fourfold.backends.webgpu.memory import read_buffer, write_buffer
from fourfold.backends.webgpu.player import POISON, Player
from fourfold.plan import ARENA


class LaunchTimer(Player, LaunchesOneByOne):
    """A plan whose launches are run one by one. Buffer 0 is the arena."""

    def fill(self, values: np.ndarray) -> None:
        """Copy these bytes into the arena."""
        with self._convert_errors("filling memory"):
            write_buffer(self._arena, 0, values)

    def blank(self, offset: int, size: int) -> None:
        """Fill a part of the arena with NaN, so that unwritten values show up."""
        with self._convert_errors("filling memory"):
            write_buffer(self._arena, offset, np.full(-(-size // 4), POISON, np.uint32))

    def read(self, offset: int, dtype: np.dtype, count: int) -> np.ndarray:
        values = np.empty(count, dtype)
        with self._convert_errors("reading memory"):
            read_buffer(self._arena, offset, values)
        return values

    def seconds(self, launches: range, runs: int) -> float:
        """Return the shortest time of these launches, one after the other; raises a DeviceError if
        one of them cannot run.
        """
        with self._convert_errors("timing kernels"):
            return min(sum(self._timed(launches, 1)) for _ in range(runs))

    @property
    def _arena(self) -> wg.Buffer:
        return self._flight.ports.buffers[ARENA]
